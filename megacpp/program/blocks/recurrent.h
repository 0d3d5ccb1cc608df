// SPDX-License-Identifier: Apache-2.0
// R: the Griffin recurrent block: a gelu gate branch and a conv + RG-LRU branch, multiplied and projected back.
#pragma once

#include <cstdint>

namespace megacpp::blocks {

struct Recurrent {
  int64_t width = 0;
  int64_t heads = 0;  // diagonal blocks of the gates
  int64_t conv_width = 4;
  bool document_mask = false;

  int64_t block_width() const { return width / heads; }
  bool operator==(const Recurrent&) const = default;
};

}  // namespace megacpp::blocks
