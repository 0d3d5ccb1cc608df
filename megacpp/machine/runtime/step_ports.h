// SPDX-License-Identifier: Apache-2.0
// What enters and leaves one step on the chips of a pipeline stage: the batch inputs the host stages before it, and the
// outputs it may fetch afterwards. Derived from the compiled run alone, so every backend has the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::runtime {

struct StagedInput {
  std::string name;         // "batch.ids", "lr"
  ir::TensorType type;      // of one chip and one micro-step
  int64_t micro_steps = 1;  // staged so many times a step
};

struct FetchedOutput {
  std::string name;     // "loss"
  ir::TensorType type;  // of one chip
  /// The actions of the step that make it, in order: one for each micro-step, or the update alone.
  std::vector<size_t> actions;
};

struct StepPorts {
  std::vector<StagedInput> inputs;
  std::vector<FetchedOutput> outputs;

  /// Nothing where there is none of that name.
  const StagedInput* find_input(const std::string& name) const;
  const FetchedOutput* find_output(const std::string& name) const;
};

/// Fetched without being asked for, by chips whose programs make them.
inline constexpr const char* kMetrics[] = {"loss", "ce", "aux", "dropped", "grad_norm"};

/// One entry for each stage of the pipeline. `fetches` names outputs besides the metrics: E1203 for one that no program
/// makes.
std::vector<StepPorts> step_ports(const compile::Compiled& compiled, const std::vector<std::string>& fetches);

}  // namespace megacpp::runtime
