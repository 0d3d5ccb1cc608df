// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/ir/dtypes/element_rows.h"

namespace megacpp::ir {
namespace {

// It is the upper half of an f32.
float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// To nearest even; NaN stays NaN.
uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace

DTypeRecord bf16_dtype() {
  return {.name = "bf16",
          .bits = 16,
          .least = -0x1.fep127,
          .largest = 0x1.fep127,
          .smallest = 0x1p-126,
          .epsilon = 0x1p-7,
          .has_infinity = true,
          .sums = DType::f32,
          .products = DType::f32,
          .rate = "bf16",
          .is_precision = true,
          .hlo = "bf16",
          .xla = "bf16",
          .numpy = "bfloat16",
          .safetensors = "BF16",
          .pjrt = 13,
          .cuda = 14,
          .device_code = 1,
          .to_f32 = row_to_f32<uint16_t, from_bf16>,
          .from_f32 = row_from_f32<uint16_t, to_bf16>};
}

}  // namespace megacpp::ir
