// SPDX-License-Identifier: Apache-2.0
// Where the lists of experts' rows are in the workspace of a product, and how long they can become: what ragged_rows
// writes and the products read. A function of the node alone.
#pragma once

#include <cstdint>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"
#include "megacpp/program/ops/expert_rows.h"

namespace megacpp::runtime::cuda {

template <typename T>
T* rows_pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

inline RowLayout row_layout(const ir::TensorType& rows, const ir::TensorType& counts) {
  const bool packed = ops::is_packed(rows);
  return {.chunks = rows.dim(0) * rows.dim(1),
          .experts = counts.dim(2),
          .chunk_rows = packed ? rows.dim(2) : rows.dim(2) * rows.dim(3),
          .expert_rows = packed ? 0 : rows.dim(3)};
}

/// First of each expert, groups, segments, one behind the other.
struct RowLists {
  RowLayout layout;
  int32_t unit;

  int64_t groups() const { return layout.chunks * layout.experts; }
  /// The most there can be: a group's last may be cut, and an expert's list is filled to a unit.
  int64_t segments() const {
    return layout.chunks * layout.chunk_rows / kSegmentRows + groups() + layout.experts * (unit - 1);
  }
  int64_t groups_at() const { return aligned((layout.experts + 1) * static_cast<int64_t>(sizeof(int32_t))); }
  int64_t segments_at() const { return groups_at() + aligned(groups() * static_cast<int64_t>(sizeof(RowGroup))); }
  int64_t bytes() const { return segments_at() + aligned(segments() * static_cast<int64_t>(sizeof(Segment))); }
  SegmentLists at(Address workspace) const {
    return {rows_pointer<int32_t>(workspace), rows_pointer<Segment>(workspace + static_cast<Address>(segments_at()))};
  }

 private:
  static int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
};

}  // namespace megacpp::runtime::cuda
