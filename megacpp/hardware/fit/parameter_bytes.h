// SPDX-License-Identifier: Apache-2.0
// What every parameter takes on a chip of given hardware, padding of its tiles included: weight, gradient and
// optimizer state, and their layouts there. And what a chip's program is handed as arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

/// One tensor of a parameter's on a chip.
struct StoredTensor {
  std::string name;    // of the state: "adam_m.block03.M.out_proj"
  std::string dtype;   // "f32"
  std::string spec;    // "model,-"
  ir::Shape local;     // what the chip holds
  int64_t bytes = 0;   // with padding
  std::string layout;  // as XLA prints it
};

struct StoredParameter {
  int64_t stage = 0;  // of the pipeline
  std::string name;   // "block03.M.out_proj"
  ir::Shape shape;    // whole
  bool trainable = true;
  std::string computed;  // spec in products
  StoredTensor weight;
  StoredTensor gradient;            // of no bytes where nothing trains it
  std::vector<StoredTensor> state;  // of the optimizer
  std::string why;

  int64_t state_bytes() const;
  int64_t bytes() const { return weight.bytes + gradient.bytes + state_bytes(); }
};

/// Every parameter, in the order of the stages, then of the model. `device` as the mesh sees it (hw::device_of).
std::vector<StoredParameter> stored_parameters(const compile::Compiled& compiled, const plan::Plan& plan,
                                               const hw::Chip& device);

/// What stays on a chip between steps or is handed in with one, as XLA gets it: state of blocks in a loop is stacked,
/// and so are micro-batches, which pads less than tensors by themselves. Gradients live inside a step. In a pipeline,
/// which XLA does not run, every micro-batch in flight is a tensor by itself.
struct ArgumentBytes {
  int64_t weights = 0;
  int64_t optimizer = 0;
  int64_t batch = 0;
  int64_t padding = 0;  // part of these

  int64_t total() const { return weights + optimizer + batch; }
};
/// `members` are those of arguments, by name, that hold more tensors than the plan has.
ArgumentBytes argument_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, const hw::Chip& device,
                             const std::map<std::string, int64_t>& members = {});
/// How many tensors each argument holds, by its name.
std::map<std::string, int64_t> argument_members(const memory::MemoryPlan& plan, const recipe::Recipe& recipe);

}  // namespace megacpp::fit
