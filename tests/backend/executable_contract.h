// SPDX-License-Identifier: Apache-2.0
// What every backend must do, tested through its record alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/train/train.h"

namespace megacpp::testing_support {

/// nam52-tiny with so few blocks and tokens that the reference kernels train it.
recipe::Recipe small_recipe(const std::vector<std::string>& overrides = {});

/// A recipe compiled and loaded on a backend, weights drawn.
class ContractRun {
 public:
  enum class Fetches { metrics, experts };  // the latter: and the load of single experts
  ContractRun(recipe::Recipe recipe, const runtime::Backend& backend, Fetches fetches = Fetches::metrics);

  std::vector<train::StepReport> train(const train::Options& options = {});
  runtime::Executable& executable() { return *executable_; }
  const compile::Compiled& compiled() const { return compiled_; }

 private:
  recipe::Recipe recipe_;
  plan::Plan plan_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
};

/// With a recipe of small_recipe(). State is written and read by the table, and everything that is not in it is E1203.
void expect_state_contract(const recipe::Recipe& recipe, const runtime::Backend& backend);

/// Fetched outputs have one value for each micro-step, counters count, and what a step does not have is E1203.
void expect_step_contract(const recipe::Recipe& recipe, const runtime::Backend& backend);

}  // namespace megacpp::testing_support
