// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/ir/dtypes/element_rows.h"

namespace megacpp::ir {
namespace {

float number(uint8_t flag) { return flag != 0 ? 1.0F : 0.0F; }
uint8_t flag(float value) { return value != 0.0F ? 1 : 0; }

}  // namespace

DTypeRecord pred_dtype() {
  return {.name = "pred",
          .bits = 8,
          .kind = ElementKind::flag,
          .largest = 1,
          .smallest = 1,
          .epsilon = 1,
          .sums = DType::pred,
          .rate = "pred",
          .hlo = "i1",
          .xla = "pred",
          .numpy = "bool",
          .pjrt = 1,
          .device_code = 3,
          .to_f32 = row_to_f32<uint8_t, number>,
          .from_f32 = row_from_f32<uint8_t, flag>};
}

}  // namespace megacpp::ir
