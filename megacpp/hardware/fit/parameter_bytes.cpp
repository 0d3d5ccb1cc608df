// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/parameter_bytes.h"

#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/dtype.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/recipe/block_loops.h"

namespace megacpp::fit {
namespace {

StoredTensor stored(const optim::StateTensor& tensor, const ir::Mesh& mesh, const hw::Chip& device) {
  const std::string dtype(ir::dtype_name(tensor.type.dtype));
  ir::Shape local = ir::local_shape(tensor.type.shape, tensor.sharding, mesh);
  const hw::TensorLayout layout = hw::argument_layout(device, dtype, local);
  return {.name = tensor.name,
          .dtype = dtype,
          .spec = to_string(tensor.sharding, mesh),
          .local = std::move(local),
          .bytes = layout.bytes,
          .layout = layout.text};
}

StoredParameter stored_parameter(const plan::Plan& plan, const blocks::Parameter& parameter, const hw::Chip& device) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
  const ir::TensorType type{ir::DType::f32, parameter.shape};
  StoredParameter row{.name = parameter.name,
                      .shape = parameter.shape,
                      .trainable = parameter.trainable,
                      .computed = to_string(spec.computed, mesh),
                      .weight = stored({parameter.name, ir::Role::weight, type, spec.stored}, mesh, device),
                      .gradient = {},
                      .state = {},
                      .why = spec.why};
  if (!parameter.trainable) return row;
  const std::string gradient = optim::gradient_name(parameter.name);
  row.gradient = stored({gradient, ir::Role::gradient, type, spec.gradient}, mesh, device);
  for (const optim::StateTensor& tensor : spec.state) row.state.push_back(stored(tensor, mesh, device));
  return row;
}

// Which blocks a loop runs over, by the rule of emit/block_loop.h for blocks that differ in their letter alone.
class StackedBlocks {
 public:
  explicit StackedBlocks(const recipe::Recipe& recipe) {
    if (recipe::has_block_loops(recipe)) repeat_ = recipe::repeated_blocks(recipe.model);
  }

  /// The argument this tensor is a part of: its own name, or that of a stack.
  std::string argument_of(const memory::StateSlot& slot) const {
    const std::string block(ir::scope_block(slot.scope));
    const size_t at = slot.name.find(block + ".");
    size_t number = 0;
    if (!block.starts_with(kBlock) || at == std::string::npos ||
        std::from_chars(block.data() + kBlock.size(), block.data() + block.size(), number).ec != std::errc() ||
        !repeat_.covers(number))
      return slot.name;
    std::string name = slot.name;
    return name.replace(at, block.size(), fmt::format("stack{}", (number - repeat_.first) % repeat_.period));
  }

 private:
  static constexpr std::string_view kBlock = "block";
  base::Repeat repeat_;
};

bool is_micro_batch(const memory::StateSlot& slot) {
  return slot.role == ir::Role::batch && slot.name.starts_with("batch.");
}

// Micro-batches have a dimension of their own even when there is one of them; blocks only when they repeat.
ir::Shape argument_shape(const memory::StateSlot& slot, int64_t members) {
  ir::Shape shape = slot.type.shape;
  if (members > 1 || is_micro_batch(slot)) shape.insert(shape.begin(), members);
  return shape;
}

/// Null: what this role is for is no argument.
int64_t* part_of(ArgumentBytes& sum, ir::Role role) {
  switch (role) {
    case ir::Role::weight:
      return &sum.weights;
    case ir::Role::optimizer:
      return &sum.optimizer;
    case ir::Role::batch:
      return &sum.batch;
    default:
      return nullptr;
  }
}

/// An argument: one of its tensors, and how many it has.
struct ArgumentStack {
  const memory::StateSlot* one = nullptr;
  int64_t members = 0;
};

std::map<std::string, ArgumentStack> stacks_of(const memory::MemoryPlan& plan, const recipe::Recipe& recipe) {
  ArgumentBytes parts;
  const StackedBlocks blocks(recipe);
  std::map<std::string, ArgumentStack> stacks;
  for (const memory::StateSlot& slot : plan.state)
    if (part_of(parts, slot.role) != nullptr && slot.tier == ir::Tier::device) {
      auto& [one, members] = stacks[blocks.argument_of(slot)];
      MEGACPP_CHECK(one == nullptr || one->type == slot.type) << slot.name << " is unlike its stack";
      one = &slot;
      ++members;
    }
  return stacks;
}

}  // namespace

int64_t StoredParameter::state_bytes() const {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : state) bytes += tensor.bytes;
  return bytes;
}

std::vector<StoredParameter> stored_parameters(const compile::Compiled& compiled, const plan::Plan& plan,
                                               const hw::Chip& device) {
  std::vector<StoredParameter> rows;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (const blocks::Parameter& parameter : compiled.parameters_of(stage)) {
      rows.push_back(stored_parameter(plan, parameter, device));
      rows.back().stage = static_cast<int64_t>(stage);
    }
  return rows;
}

std::map<std::string, int64_t> argument_members(const memory::MemoryPlan& plan, const recipe::Recipe& recipe) {
  std::map<std::string, int64_t> members;
  for (const auto& [name, stack] : stacks_of(plan, recipe)) members[name] = stack.members;
  return members;
}

ArgumentBytes argument_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, const hw::Chip& device,
                             const std::map<std::string, int64_t>& members) {
  ArgumentBytes sum;
  for (const auto& [name, stack] : stacks_of(plan, recipe)) {
    const memory::StateSlot& slot = *stack.one;
    const auto given = members.find(name);
    const int64_t of_blocks = given == members.end() ? stack.members : given->second;
    const int64_t count = is_micro_batch(slot) ? recipe.train.micro_steps : of_blocks;
    const int64_t bytes = hw::argument_bytes(device, ir::dtype_name(slot.type.dtype), argument_shape(slot, count));
    *part_of(sum, slot.role) += bytes;
    sum.padding += bytes - count * slot.type.bytes();
  }
  return sum;
}

}  // namespace megacpp::fit
