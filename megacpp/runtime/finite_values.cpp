// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/finite_values.h"

#include <cmath>
#include <cstdint>

namespace megacpp::runtime {

bool all_finite(std::span<const std::byte> values, ir::DType dtype) {
  const size_t count = values.size() / static_cast<size_t>(ir::dtype_bytes(dtype));
  for (size_t i = 0; i < count; ++i) {
    const float value = dtype == ir::DType::f32 ? reinterpret_cast<const float*>(values.data())[i]
                                                : ir::bf16_to_f32(reinterpret_cast<const uint16_t*>(values.data())[i]);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace megacpp::runtime
