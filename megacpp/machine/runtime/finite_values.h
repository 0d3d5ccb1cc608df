// SPDX-License-Identifier: Apache-2.0
// Whether numbers in memory of the host are finite.
#pragma once

#include <cstddef>
#include <span>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::runtime {

/// Of floats: f32 or bf16, one behind the other.
bool all_finite(std::span<const std::byte> values, ir::DType dtype);

}  // namespace megacpp::runtime
