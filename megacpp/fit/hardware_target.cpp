// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/hardware_target.h"

#include "megacpp/hw/tiled_layout.h"
#include "megacpp/ir/dtype.h"

namespace megacpp::fit {
namespace {

base::Decision runs_on_tpu(const schedule::Target& kernels, std::string_view op, const ops::NodeView& view) {
  const ops::OpDef& def = ops::op_def(op);
  if (def.looped && !def.looped(view).empty()) return base::Decision::no("XLA gets a loop");
  return kernels.runs(op, view);
}

int64_t bytes_of_temporaries(const hw::Chip& device, std::string_view op, const ops::NodeView& view) {
  const ops::OpDef& def = ops::op_def(op);
  int64_t bytes = 0;
  if (def.temporaries)
    for (const ir::TensorType& type : def.temporaries(view))
      bytes += hw::value_bytes(device, ir::dtype_name(type.dtype), type.shape);
  return bytes;
}

}  // namespace

schedule::Target hardware_target(const hw::Chip& device, const schedule::Target& kernels) {
  schedule::Target target{.name = device.name,
                          .runs = kernels.runs,
                          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
                          .alignment = device.alignment,
                          .places_itself = true};
  if (device.kind == hw::ChipKind::tpu) {
    target.runs = [kernels](std::string_view op, const ops::NodeView& view) { return runs_on_tpu(kernels, op, view); };
    target.workspace_bytes = [device](std::string_view op, const ops::NodeView& view) {
      return bytes_of_temporaries(device, op, view);
    };
    target.compiles_loops = true;
  }
  if (device.tiling.exists()) {
    target.state_storage = [device](const ir::TensorType& type) {
      return hw::argument_bytes(device, ir::dtype_name(type.dtype), type.shape);
    };
    target.value_storage = [device](const ir::TensorType& type) {
      return hw::value_bytes(device, ir::dtype_name(type.dtype), type.shape);
    };
  }
  return target;
}

}  // namespace megacpp::fit
