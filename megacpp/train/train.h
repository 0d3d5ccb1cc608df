// SPDX-License-Identifier: Apache-2.0
// The training loop over all chips of a run: micro-steps, then the update, step after step. It reads only the recipe's
// run section; what the model is stands in the compiled programs. Stops cleanly when asked to, and with E1302 when the
// loss is not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/data/batches.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::train {

/// The sequences of a run, as its recipe has them.
data::BatchOptions batch_options(const recipe::Recipe& recipe);

struct StepReport {
  int64_t step = 0;  // from 0
  double loss = 0;   // mean over micro-steps
  double cross_entropy = 0;
  double balance = 0;    // mean auxiliary balance loss, before its coefficient; 0 without experts
  double dropped = 0;    // expert requests beyond capacity, all micro-steps
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double seconds = 0;
  int64_t tokens = 0;
};

struct Hooks {
  std::function<void(const StepReport&)> after_step = {};
  std::function<bool()> should_stop = {};  // asked between steps
};

struct Options {
  bool check_nans = false;  // on a loss that is not finite, name the op that made it so
};

/// Runs recipe.train.steps steps from the weights in `run`; returns a report per step.
std::vector<StepReport> train(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                              const data::Batches& batches, runtime::Executable& run, const Options& options = {},
                              const Hooks& hooks = {});

}  // namespace megacpp::train
