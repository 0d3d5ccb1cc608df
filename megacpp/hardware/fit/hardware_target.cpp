// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/hardware_target.h"

#include "megacpp/core/ir/dtype.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/program/emit/custom_call.h"

namespace megacpp::fit {
namespace {

bool is_call(const XlaForms& forms, std::string_view op, const ops::NodeView& view) {
  const emit::CustomCall* const call = forms.has_calls ? emit::find_custom_call(op) : nullptr;
  return call != nullptr && call->takes(view);
}

base::Decision runs_by_xla(const schedule::Target& kernels, const XlaForms& forms, std::string_view op,
                           const ops::NodeView& view) {
  const ops::OpDef& def = ops::op_def(op);
  const bool may_be_loop = forms.has_loops && def.looped && !is_call(forms, op, view);
  if (may_be_loop && !def.looped(view).empty()) return base::Decision::no("XLA gets a loop");
  return kernels.runs(op, view);
}

int64_t temporary_bytes(const schedule::Target& target, const XlaForms& forms, std::string_view op,
                        const ops::NodeView& view) {
  const ops::OpDef& def = ops::op_def(op);
  if (!def.temporaries || is_call(forms, op, view)) return 0;
  int64_t bytes = 0;
  for (const ir::TensorType& type : def.temporaries(view)) bytes += target.bytes_of_value(type);
  return bytes;
}

}  // namespace

schedule::Target hardware_target(const hw::Chip& device, const schedule::Target& kernels,
                                 const std::optional<XlaForms>& xla) {
  schedule::Target target{.name = device.name,
                          .runs = kernels.runs,
                          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
                          .alignment = device.alignment,
                          .places_itself = true};
  if (device.tiling.exists()) {
    target.state_storage = [device](const ir::TensorType& type) {
      return hw::argument_bytes(device, ir::dtype_name(type.dtype), type.shape);
    };
    target.value_storage = [device](const ir::TensorType& type) {
      return hw::value_bytes(device, ir::dtype_name(type.dtype), type.shape);
    };
  }
  if (!xla) return target;
  target.workspace_bytes = [target, forms = *xla](std::string_view op, const ops::NodeView& view) {
    return temporary_bytes(target, forms, op, view);
  };
  target.runs = [kernels, forms = *xla](std::string_view op, const ops::NodeView& view) {
    return runs_by_xla(kernels, forms, op, view);
  };
  target.compiles_loops = xla->has_loops;
  if (xla->fuses_across_passes) target.ops_per_byte = schedule::kGpuOpsPerByte;  // what XLA weighs is not known
  return target;
}

}  // namespace megacpp::fit
