// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::ir {

DTypeRecord f32_dtype() {
  using Limits = std::numeric_limits<float>;
  return {.name = "f32",
          .bits = 32,
          .least = Limits::lowest(),
          .largest = Limits::max(),
          .smallest = Limits::min(),
          .epsilon = Limits::epsilon(),
          .has_infinity = true,
          .sums = DType::f32,
          .products = DType::f32,
          .rate = "f32",
          .is_precision = true,
          .hlo = "f32",
          .xla = "f32",
          .numpy = "float32",
          .safetensors = "F32",
          .pjrt = 11,
          .cuda = 0,
          .device_code = 0,
          .to_f32 =
              [](const std::byte* from, float* to, int64_t count) {
                if (count > 0) std::memmove(to, from, static_cast<size_t>(count) * sizeof(float));
              },
          .from_f32 =
              [](const float* from, std::byte* to, int64_t count) {
                if (count > 0) std::memmove(to, from, static_cast<size_t>(count) * sizeof(float));
              }};
}

}  // namespace megacpp::ir
