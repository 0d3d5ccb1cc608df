// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/parameter_bytes.h"

#include "megacpp/hw/tiled_layout.h"
#include "megacpp/ir/dtype.h"

namespace megacpp::fit {
namespace {

constexpr const char* kStateType = "f32";

StoredTensor stored(const blocks::Parameter& parameter, const ir::Sharding& sharding, const ir::Mesh& mesh,
                    const hw::Chip& device) {
  ir::Shape local = ir::local_shape(parameter.shape, sharding, mesh);
  const hw::TensorLayout layout = hw::argument_layout(device, kStateType, local);
  return {.spec = to_string(sharding, mesh), .local = std::move(local), .bytes = layout.bytes, .layout = layout.text};
}

StoredParameter stored_parameter(const plan::Plan& plan, const blocks::Parameter& parameter, const hw::Chip& device) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
  StoredParameter row{.name = parameter.name,
                      .shape = parameter.shape,
                      .trainable = parameter.trainable,
                      .computed = to_string(spec.computed, mesh),
                      .weight = stored(parameter, spec.stored, mesh, device),
                      .gradient = {},
                      .moment = {},
                      .why = spec.why};
  if (!parameter.trainable) return row;
  row.gradient = stored(parameter, spec.gradient, mesh, device);
  row.moment = stored(parameter, spec.optimizer, mesh, device);
  return row;
}

}  // namespace

std::vector<StoredParameter> stored_parameters(const compile::Compiled& compiled, const plan::Plan& plan,
                                               const hw::Chip& device) {
  std::vector<StoredParameter> rows;
  for (size_t stage = 0; stage < compiled.pipeline.size(); ++stage)
    for (const blocks::Parameter& parameter : compiled.parameters_of(stage)) {
      rows.push_back(stored_parameter(plan, parameter, device));
      rows.back().stage = static_cast<int64_t>(stage);
    }
  return rows;
}

ArgumentBytes argument_bytes(const memory::MemoryPlan& plan, const hw::Chip& device) {
  ArgumentBytes sum;
  for (const memory::StateSlot& slot : plan.state) {
    int64_t* const part = slot.role == ir::Role::weight      ? &sum.weights
                          : slot.role == ir::Role::optimizer ? &sum.optimizer
                          : slot.role == ir::Role::batch     ? &sum.batch
                                                             : nullptr;
    if (part == nullptr) continue;
    const int64_t bytes = hw::argument_bytes(device, ir::dtype_name(slot.type.dtype), slot.type.shape);
    *part += bytes;
    sum.padding += bytes - slot.type.bytes();
  }
  return sum;
}

}  // namespace megacpp::fit
