// SPDX-License-Identifier: Apache-2.0
// Operand checks shared by the sequence-mixing ops: each raises E1301, naming the op and the operand that is wrong.
// Operands may be any float type; the checks never look at values.
#pragma once

#include <string_view>

#include "megacpp/ir/attrs.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::ops {

void require_operand_count(std::string_view op, const Types& operands, size_t count);
void require_float_rank(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t rank);
void require_float_shape(std::string_view op, std::string_view operand, const ir::TensorType& got,
                         const ir::Shape& wanted);
/// The attribute is at least one.
void require_positive(std::string_view op, const ir::Attrs& attrs, std::string_view name);

}  // namespace megacpp::ops
