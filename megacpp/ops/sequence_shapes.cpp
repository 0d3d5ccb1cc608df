// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/sequence_shapes.h"

#include <string>

#include "megacpp/base/error.h"

namespace megacpp::ops {
namespace {

std::string place(std::string_view op, std::string_view operand) {
  return std::string(op) + ", operand " + std::string(operand);
}

}  // namespace

void require_operand_count(std::string_view op, const Types& operands, size_t count) {
  MEGACPP_REQUIRE(operands.size() == count, E1301,
                  ({.where = std::string(op),
                    .got = std::to_string(operands.size()) + " operands",
                    .wanted = std::to_string(count),
                    .next = ""}));
}

void require_float_rank(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t rank) {
  MEGACPP_REQUIRE(ir::is_float(got.dtype) && got.rank() == rank, E1301,
                  ({.where = place(op, operand),
                    .got = ir::to_string(got),
                    .wanted = "a float tensor of rank " + std::to_string(rank),
                    .next = ""}));
}

void require_float_shape(std::string_view op, std::string_view operand, const ir::TensorType& got,
                         const ir::Shape& wanted) {
  MEGACPP_REQUIRE(ir::is_float(got.dtype) && got.shape == wanted, E1301,
                  ({.where = place(op, operand),
                    .got = ir::to_string(got),
                    .wanted = "a float tensor of shape " + ir::to_string(wanted),
                    .next = ""}));
}

void require_positive(std::string_view op, const ir::Attrs& attrs, std::string_view name) {
  MEGACPP_REQUIRE(attrs.integer(name, 0) >= 1, E1301,
                  ({.where = std::string(op) + ", attribute " + std::string(name),
                    .got = std::to_string(attrs.integer(name, 0)),
                    .wanted = "1 or more",
                    .next = ""}));
}

}  // namespace megacpp::ops
