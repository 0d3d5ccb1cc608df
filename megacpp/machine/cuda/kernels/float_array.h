// SPDX-License-Identifier: Apache-2.0
// A tensor of floats as kernels of several dtypes take it in their parameters. Plain C++: device code includes it too.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

struct FloatArray {
  uint64_t address;
  uint64_t is_bf16;  // 1, or 0 for f32: a whole word, so that no byte of the parameters is left undefined
};

}  // namespace megacpp::runtime::cuda
