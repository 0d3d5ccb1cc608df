// SPDX-License-Identifier: Apache-2.0
// Rows of tokens on their way to experts: [batch, chunk, expert, capacity, hidden], or packed behind one another as
// [batch, chunk, row, hidden].
#pragma once

#include <string>

#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ops {

inline bool is_packed(const ir::TensorType& rows) { return rows.rank() == 4; }

/// For factors: the names of all dimensions but the last, and which of them stay whole. Experts may be split, their
/// places not; packed groups start where the one before ends, so they stay together.
struct RowNames {
  std::string rows, replicated;
};

inline RowNames row_names(const ir::TensorType& rows) {
  return is_packed(rows) ? RowNames{"b c r ", "r x"} : RowNames{"b c x r ", "r"};
}

}  // namespace megacpp::ops
