// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/require.h"

#include <string>

#include "megacpp/core/base/error.h"

namespace megacpp::ops {
namespace {

std::string place(std::string_view op, std::string_view operand) {
  return std::string(op) + ", operand " + std::string(operand);
}

std::string listed(const Types& operands) {
  std::string text;
  for (const ir::TensorType& type : operands) text += (text.empty() ? "" : ", ") + to_string(type);
  return text.empty() ? "no operands" : text;
}

}  // namespace

void require_operands(bool fit, std::string_view op, const Types& operands, std::string_view wanted) {
  MEGACPP_REQUIRE(fit, E1301, {.where = std::string(op), .got = listed(operands), .wanted = std::string(wanted)});
}

void require_operand_count(std::string_view op, const Types& operands, size_t count) {
  MEGACPP_REQUIRE(operands.size() == count, E1301,
                  {.where = std::string(op),
                   .got = std::to_string(operands.size()) + " operands",
                   .wanted = std::to_string(count)});
}

void require_type(std::string_view op, std::string_view operand, const ir::TensorType& got,
                  const ir::TensorType& wanted) {
  MEGACPP_REQUIRE(got == wanted, E1301,
                  {.where = place(op, operand), .got = to_string(got), .wanted = to_string(wanted)});
}

void require_float_rank(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t rank) {
  MEGACPP_REQUIRE(
      ir::is_float(got.dtype) && got.rank() == rank, E1301,
      {.where = place(op, operand), .got = to_string(got), .wanted = "a float tensor of rank " + std::to_string(rank)});
}

void require_float_rank_from(std::string_view op, std::string_view operand, const ir::TensorType& got, int64_t least) {
  MEGACPP_REQUIRE(ir::is_float(got.dtype) && got.rank() >= least, E1301,
                  {.where = place(op, operand),
                   .got = to_string(got),
                   .wanted = "a float tensor of rank " + std::to_string(least) + " or more"});
}

void require_float_shape(std::string_view op, std::string_view operand, const ir::TensorType& got,
                         const ir::Shape& wanted) {
  MEGACPP_REQUIRE(ir::is_float(got.dtype) && got.shape == wanted, E1301,
                  {.where = place(op, operand),
                   .got = to_string(got),
                   .wanted = "a float tensor of shape " + ir::to_string(wanted)});
}

void require_dim(std::string_view op, int64_t dim, const ir::Shape& shape) {
  MEGACPP_REQUIRE(dim >= 0 && dim < static_cast<int64_t>(shape.size()), E1301,
                  {.where = std::string(op),
                   .got = "dimension " + std::to_string(dim),
                   .wanted = "a dimension of " + ir::to_string(shape)});
}

void require_at_least(std::string_view op, const ir::Attrs& attrs, std::string_view name, int64_t least) {
  MEGACPP_REQUIRE(attrs.integer(name, 0) >= least, E1301,
                  {.where = std::string(op) + ", attribute " + std::string(name),
                   .got = std::to_string(attrs.integer(name, 0)),
                   .wanted = std::to_string(least) + " or more"});
}

ir::DType require_dtype(std::string_view op, const std::string& text) {
  const auto dtype = ir::parse_dtype(text);
  MEGACPP_REQUIRE(dtype.has_value(), E1301, {.where = std::string(op), .got = text, .wanted = "a dtype"});
  return *dtype;
}

}  // namespace megacpp::ops
