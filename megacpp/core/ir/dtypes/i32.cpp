// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/ir/dtypes/element_rows.h"

namespace megacpp::ir {
namespace {

float from_i32(int32_t value) { return static_cast<float>(value); }
int32_t to_i32(float value) { return static_cast<int32_t>(value); }

}  // namespace

DTypeRecord i32_dtype() {
  return {.name = "i32",
          .bits = 32,
          .kind = ElementKind::integer,
          .least = -2147483648.0,
          .largest = 2147483647.0,
          .smallest = 1,
          .epsilon = 1,
          .sums = DType::i32,
          .rate = "i32",
          .hlo = "i32",
          .xla = "s32",
          .numpy = "int32",
          .safetensors = "I32",
          .pjrt = 4,
          .device_code = 2,
          .to_f32 = row_to_f32<int32_t, from_i32>,
          .from_f32 = row_from_f32<int32_t, to_i32>};
}

}  // namespace megacpp::ir
