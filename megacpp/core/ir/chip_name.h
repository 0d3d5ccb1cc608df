// SPDX-License-Identifier: Apache-2.0
// How a chip is called wherever people read of one.
#pragma once

#include <cstdint>
#include <string>

#include "megacpp/core/ir/mesh.h"

namespace megacpp::ir {

/// "chip 3: data 0, model 1": its number and where it stands in the mesh.
std::string chip_name(int64_t chip, const Mesh& mesh);

}  // namespace megacpp::ir
