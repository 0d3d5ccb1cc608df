// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/chip_name.h"

namespace megacpp::ir {

std::string chip_name(int64_t chip, const Mesh& mesh) {
  std::string name = "chip " + std::to_string(chip);
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    name += (axis == 0 ? ": " : ", ") + mesh.axes()[axis].name + " " +
            std::to_string(mesh.coordinate(chip, static_cast<AxisId>(axis)));
  return name;
}

}  // namespace megacpp::ir
