// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/hardware_target.h"

#include "megacpp/hw/tiled_layout.h"
#include "megacpp/ir/dtype.h"

namespace megacpp::fit {

schedule::Target hardware_target(const hw::Chip& device, const schedule::Target& kernels) {
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
  return target;
}

}  // namespace megacpp::fit
