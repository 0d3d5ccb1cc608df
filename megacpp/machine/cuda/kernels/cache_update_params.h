// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// A block for each slot and batch: cache and `to` [batch, slots, width], written rows [batch, rows, width], width in
/// units of 2 to 16 bytes; labels i32 [slots] and [rows].
struct CacheUpdateParams {
  uint64_t cache, written, slot_labels, row_labels, to;
  int64_t width;
  int32_t slots, rows;
};

}  // namespace megacpp::runtime::cuda
