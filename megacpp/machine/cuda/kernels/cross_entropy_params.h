// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// A block for each row of logits [rows, width]; labels i32 [rows], a negative one masks its row; all others f32
/// [rows].
struct CrossEntropyParams {
  uint64_t logits, labels, nll, lse;
  int64_t width;
};

struct CrossEntropyGradParams {
  uint64_t logits, labels, lse, dnll, dlse;
  uint64_t dlogits;  // [rows, width]; may be logits where dtypes are the same
  int64_t width;
};

/// Threads of a block, at most.
inline constexpr int kCrossEntropyThreads = 512;

}  // namespace megacpp::runtime::cuda
