// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/require.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace megacpp::ops {
namespace {

using ir::DType;

template <typename Body>
base::Problem problem_of(const Body& body) {
  return testing_support::problem_of(base::Code::E1301, body);
}

TEST(RequireTest, ErrorsListTheOperands) {
  const Types two = {{DType::f32, {2, 3}}, {DType::i32, {2}}};
  const base::Problem problem = problem_of([&] { require_operands(false, "take", two, "table[v,h]"); });
  EXPECT_EQ(problem.where, "take");
  EXPECT_EQ(problem.got, "f32[2,3], i32[2]");
  EXPECT_EQ(problem.wanted, "table[v,h]");
  EXPECT_EQ(problem_of([] { require_operands(false, "take", {}, ""); }).got, "no operands");
  EXPECT_NO_THROW(require_operands(true, "take", two, ""));
}

TEST(RequireTest, ErrorsNameTheOperandOrAttribute) {
  const ir::TensorType type = {DType::f32, {2, 3}};
  EXPECT_EQ(problem_of([&] {
              require_type("dot", "addend", type, {DType::bf16, {2, 3}});
            }).where,
            "dot, operand addend");
  EXPECT_EQ(problem_of([&] { require_float_rank("ssd", "x", type, 4); }).where, "ssd, operand x");
  EXPECT_EQ(problem_of([&] { require_float_rank_from("ssd", "x", type, 3); }).got, "f32[2,3]");
  EXPECT_NO_THROW(require_float_rank_from("ssd", "x", type, 2));
  EXPECT_EQ(problem_of([&] { require_float_shape("ssd", "A", {DType::i32, {3}}, {3}); }).got, "i32[3]");
  EXPECT_EQ(problem_of([] { require_at_least("ssd", {}, "chunk", 1); }).where, "ssd, attribute chunk");
  EXPECT_EQ(problem_of([] { require_dtype("convert", "f12"); }).got, "f12");
  EXPECT_EQ(require_dtype("convert", "bf16"), DType::bf16);
}

TEST(RequireTest, DimensionsCountFromZeroToTheRank) {
  EXPECT_NO_THROW(require_dim("slice", 1, {2, 3}));
  for (const int64_t dim : {-1, 2}) problem_of([&] { require_dim("slice", dim, {2, 3}); });
}

TEST(RequireTest, OpsRefuseMissingOperandsAndDimensions) {
  struct Case {
    std::string op;
    Types operands;
    ir::Attrs attrs;
  };
  const Types x = {{DType::f32, {4, 6}}};
  const Types pair = {x[0], x[0]};
  const ir::Attrs reshape = {{"shape", ir::Shape{24}}};
  const ir::Attrs transpose = {{"permutation", ir::Shape{0}}};
  const ir::Attrs slice = {{"dim", 0}, {"start", 0}, {"size", 1}};
  const auto fused = [](const char* program, const char* dtypes) {
    return ir::Attrs{{"shape", ir::Shape{4, 6}}, {"program", std::string(program)}, {"dtypes", std::string(dtypes)}};
  };
  const ir::Attrs dot = {{"lhs_contract", ir::Shape{2}},
                         {"rhs_contract", ir::Shape{0}},
                         {"lhs_batch", ir::Shape{}},
                         {"rhs_batch", ir::Shape{}}};
  const ir::Attrs iota = {{"dim", 2}, {"dtype", std::string("i32")}, {"shape", ir::Shape{4, 6}}};
  for (const Case& c : std::vector<Case>{{"reshape", {}, reshape},
                                         {"transpose", {}, transpose},
                                         {"slice", {}, slice},
                                         {"concatenate", {x[0], {DType::f32, {4}}}, {{"dim", 1}}},
                                         {"concatenate", pair, {{"dim", -1}}},
                                         {"dot", pair, dot},
                                         {"iota", {}, iota},
                                         {"fused", x, fused("in(0,2) out(%0)", "f32")},
                                         {"fused", x, fused("in(0,1) out(%0) out(%0)", "f32")},
                                         {"fused", x, fused("in(0,1) sum(%0;3)", "f32")}}) {
    SCOPED_TRACE(c.op);
    problem_of([&] { op_def(c.op).infer(c.operands, c.attrs); });
  }
}

}  // namespace
}  // namespace megacpp::ops
