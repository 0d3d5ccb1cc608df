// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// `to`: f32 [count]; `step`: i32 []. The rest is base::Philox's: key of seed and site, and what makes its words.
struct RandomParams {
  uint64_t step, to;
  uint64_t count;
  uint32_t key0, key1;
  uint32_t multiplier0, multiplier1;
  uint32_t weyl0, weyl1;
  int32_t rounds;
};

}  // namespace megacpp::runtime::cuda
