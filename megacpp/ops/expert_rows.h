// SPDX-License-Identifier: Apache-2.0
// Rows of tokens on their way to experts: [batch, chunk, expert, capacity, hidden], or packed behind one another as
// [batch, chunk, row, hidden].
#pragma once

#include "megacpp/ir/tensor_type.h"

namespace megacpp::ops {

inline bool is_packed(const ir::TensorType& rows) { return rows.rank() == 4; }

}  // namespace megacpp::ops
