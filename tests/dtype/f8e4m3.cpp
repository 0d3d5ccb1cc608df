// SPDX-License-Identifier: Apache-2.0
// Eight bits with four of exponent, as OCP's E4M3: no infinity, 448 the largest number.
#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/ir/dtypes/element_rows.h"
#include "megacpp/core/ir/narrow_float.h"

namespace megacpp::ir {
namespace {

constexpr FloatFormat kFormat = {.exponent_bits = 4, .fraction_bits = 3, .has_infinity = false};

float from_eight(uint8_t bits) { return widened(bits, kFormat); }
uint8_t to_eight(float value) { return static_cast<uint8_t>(narrowed(value, kFormat)); }

}  // namespace

DTypeRecord f8e4m3_dtype() {
  return {.name = "f8e4m3",
          .bits = 8,
          .least = -448,
          .largest = 448,
          .smallest = 0x1p-6,
          .epsilon = 0x1p-3,
          .sums = DType::f32,
          .products = DType::f32,
          .rate = "f8",
          .is_precision = true,
          .hlo = "f8E4M3FN",
          .xla = "f8e4m3fn",
          .numpy = "float8_e4m3fn",
          .safetensors = "F8_E4M3",
          .pjrt = 17,
          .cuda = 28,
          .to_f32 = row_to_f32<uint8_t, from_eight>,
          .from_f32 = row_from_f32<uint8_t, to_eight>};
}

}  // namespace megacpp::ir
