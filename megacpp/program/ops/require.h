// SPDX-License-Identifier: Apache-2.0
// What an op demands of its operands and attributes while it infers types: each check raises E1301 unless it holds,
// naming the op, what it got and what it wants. Only types and attributes are looked at, never values.
#pragma once

#include <string_view>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

/// `fit` was worked out by the op; the error lists the operands' types. `wanted`: "x[T,h], i32 slot[T,k]".
void require_operands(bool fit, std::string_view op, const Types& operands, std::string_view wanted);
void require_operand_count(std::string_view op, const Types& operands, size_t count);

/// One operand, by its name in the op's documentation.
void require_type(std::string_view op, std::string_view operand, const ir::TensorType& got,
                  const ir::TensorType& wanted);
void require_float_rank(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t rank);
void require_float_rank_from(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t least);
void require_float_shape(std::string_view op, std::string_view operand, const ir::TensorType& got,
                         const ir::Shape& wanted);

/// `dim` is a dimension of a tensor of `shape`.
void require_dim(std::string_view op, int64_t dim, const ir::Shape& shape);
/// The attribute `name` is `least` or more; an absent one counts as 0.
void require_at_least(std::string_view op, const ir::Attrs& attrs, std::string_view name, int64_t least);
/// The dtype that the text names.
ir::DType require_dtype(std::string_view op, const std::string& text);

}  // namespace megacpp::ops
