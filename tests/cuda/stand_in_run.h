// SPDX-License-Identifier: Apache-2.0
// A hybrid model, compiled for GPUs, loaded on a machine that stands in for one and stepped there: what tests of the
// host path look into.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/train/run_state.h"
#include "tests/cuda/planned_buffers.h"
#include "tests/cuda/stand_in_gpu.h"

namespace megacpp::testing_support {

inline recipe::Recipe hybrid(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"train.batch=2", "train.sequence=64", "train.micro_steps=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", all);
}

/// A recipe compiled for GPUs and loaded on a machine of its own, weights drawn. From then on nothing may be allocated.
class StandInRun {
 public:
  explicit StandInRun(const std::vector<std::string>& overrides = {}, bool profile = false, int devices = 1)
      : recipe_(hybrid(overrides)), compiled_(compile_for_gpus(recipe_)) {
    machine().devices = devices;
    runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe_), compiled_.mesh.chips());
    options.profile = profile;
    options.wait_limit = std::chrono::seconds(20);
    executable_ = runtime::cuda::load(compiled_, options, gpu_.parts());
    train::RunState(compiled_, *executable_).initialise_weights(1);
    machine().is_loaded = true;
    machine().operations.clear();
  }

  static compile::Compiled compile_for_gpus(const recipe::Recipe& recipe) {
    const plan::Plan plan = plan::make_plan(recipe);
    return compile::compile_training(plan, runtime::cuda::cuda_target(plan.parallel.mesh.chips()));
  }

  void step(runtime::StepMode mode = runtime::StepMode::plain) {
    const float rate = 0.5F;
    executable_->stage_batch("lr", 0, 0, std::as_bytes(std::span(&rate, 1)));
    executable_->run_step(mode);
  }

  stand_in_cuda::Machine& machine() const { return gpu_.machine(); }
  const compile::Compiled& compiled() const { return compiled_; }
  const std::map<std::string, int>& compiles() const { return gpu_.compiles(); }
  const compile::StagePrograms& programs() const { return compiled_.programs_of(0); }
  runtime::Executable& executable() const { return *executable_; }

  /// Where the arena begins: the only memory of exactly its size.
  uint64_t arena() const {
    for (const auto& [address, bytes] : machine().allocated)
      if (static_cast<int64_t>(bytes) == programs().memory.total_bytes) return address;
    ADD_FAILURE() << "no memory of the planned " << programs().memory.total_bytes << " bytes";
    return 0;
  }

  /// What ran since the last call, uploads left out: they are the host's.
  std::vector<stand_in_cuda::Operation> take_operations() const {
    std::vector<stand_in_cuda::Operation> taken;
    std::swap(taken, machine().operations);
    std::erase_if(taken, [](const stand_in_cuda::Operation& each) { return each.kind == stand_in_cuda::Kind::upload; });
    return taken;
  }

 private:
  StandInGpu gpu_;
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
};

inline void expect_in_planned_buffers(const StandInRun& run, const std::vector<stand_in_cuda::Operation>& operations) {
  expect_planned_buffers_alone(run.programs(), run.arena(), operations);
}

inline std::vector<std::string> texts_of(const std::vector<stand_in_cuda::Operation>& operations) {
  std::vector<std::string> texts;
  for (const stand_in_cuda::Operation& operation : operations) {
    std::string text = std::to_string(static_cast<int>(operation.kind)) + " " + operation.name;
    for (const stand_in_cuda::Range& range : operation.ranges)
      text += " " + std::to_string(range.address) + "+" + std::to_string(range.bytes);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace megacpp::testing_support
