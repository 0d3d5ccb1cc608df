// SPDX-License-Identifier: Apache-2.0
// What a tensor takes in a TPU's memory, padding of tiles included. The rule holds for the arguments of a program,
// which lie in the order of dimensions that pads least; of what lies between, the compiler chooses the layout. Measured
// from the compiler for v6e (libtpu 0.0.48.1): every row of tests/golden/v6e_argument_bytes.jsonl.
#pragma once

#include <cstdint>

#include "megacpp/ir/tensor_type.h"

namespace megacpp::runtime::plugins {

int64_t tpu_argument_bytes(const ir::Shape& shape, int64_t element_bytes);
inline int64_t tpu_argument_bytes(const ir::TensorType& type) {
  return tpu_argument_bytes(type.shape, ir::dtype_bytes(type.dtype));
}

}  // namespace megacpp::runtime::plugins
