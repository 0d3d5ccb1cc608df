// SPDX-License-Identifier: Apache-2.0
// Costs of products against their closed formulas, with the sizes written out: multiply and add count one each.
#include <gtest/gtest.h>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {
namespace {

using ir::DType;

struct CostRow {
  std::string name;
  std::string op;
  Types operands;
  ir::Attrs attrs;
  double flops;
  double exponentials = 0;
};

void PrintTo(const CostRow& row, std::ostream* out) { *out << row.name; }

ir::TensorType real(ir::Shape shape) { return {DType::f32, std::move(shape)}; }
ir::TensorType whole_numbers(ir::Shape shape) { return {DType::i32, std::move(shape)}; }

ir::Attrs dot_dims(std::vector<int64_t> lhs_contract, std::vector<int64_t> rhs_contract,
                   std::vector<int64_t> lhs_batch = {}, std::vector<int64_t> rhs_batch = {}) {
  return {{"lhs_contract", lhs_contract},
          {"rhs_contract", rhs_contract},
          {"lhs_batch", lhs_batch},
          {"rhs_batch", rhs_batch}};
}

// 2 m n k, for each of the batch.
std::vector<CostRow> dot_rows() {
  return {
      {"dot", "dot", {real({4, 6}), real({6, 5})}, dot_dims({1}, {0}), 2.0 * 4 * 5 * 6},
      {"dot_rank3", "dot", {real({2, 3, 4}), real({4, 5})}, dot_dims({2}, {0}), 2.0 * (2 * 3) * 5 * 4},
      {"dot_two_contracted",
       "dot",
       {real({2, 3, 4}), real({2, 3, 5})},
       dot_dims({0, 1}, {0, 1}),
       2.0 * 4 * 5 * (2 * 3)},
      {"mixed_dot", "mixed_dot", {{DType::bf16, {4, 6}}, real({6, 5})}, dot_dims({1}, {0}), 2.0 * 4 * 5 * 6},
      {"dot_batched", "dot", {real({7, 3, 4}), real({7, 4, 5})}, dot_dims({2}, {1}, {0}, {0}), 7 * 2.0 * 3 * 5 * 4}};
}

// Every row [h] times the matrix [h, f] of its expert: 2 rows h f, rows that are not in use among them.
std::vector<CostRow> ragged_rows() {
  const ir::TensorType packed = real({2, 1, 8, 4}), counts = whole_numbers({2, 1, 3});
  return {{"ragged_packed",
           "ragged_dot",
           {packed, real({3, 4, 6}), counts},
           {{"transpose_w", int64_t{0}}},
           2.0 * (2 * 8) * 4 * 6},
          {"ragged_placed",
           "ragged_dot",
           {real({2, 2, 4, 3, 5}), real({4, 7, 5}), whole_numbers({2, 2, 4})},
           {{"transpose_w", int64_t{1}}},
           2.0 * (2 * 2 * 4 * 3) * 5 * 7},
          {"ragged_weight",
           "ragged_dot_weight",
           {packed, real({2, 1, 8, 6}), counts},
           {{"transpose_w", int64_t{0}}},
           2.0 * (2 * 8) * 4 * 6},
          // Two products, or one, and the scalar ops between: 3 for h, 10 for the gradients of gate and up, one
          // more for h beside them.
          {"ragged_swiglu",
           "ragged_swiglu",
           {packed, real({3, 4, 6}), real({3, 4, 6}), counts},
           {{"keep_products", int64_t{1}}},
           (2 * 2.0 * 4 + 3) * (2 * 8) * 6},
          {"ragged_swiglu_grad",
           "ragged_swiglu_grad",
           {packed, real({3, 6, 4}), counts, real({2, 1, 8, 6}), real({2, 1, 8, 6})},
           {{"make_h", int64_t{0}}},
           (2.0 * 4 + 10) * (2 * 8) * 6},
          {"ragged_swiglu_grad_h",
           "ragged_swiglu_grad",
           {packed, real({3, 6, 4}), counts, real({2, 1, 8, 6}), real({2, 1, 8, 6})},
           {{"make_h", int64_t{1}}},
           (2.0 * 4 + 11) * (2 * 8) * 6}};
}

// Scores and their product with the values: 2 + 2 for each seen pair, head and dimension; the gradient has five such
// products. One exponential for each score.
std::vector<CostRow> attention_rows() {
  constexpr int64_t b = 2, s = 6, heads = 4, kv = 2, d = 8;
  const ir::TensorType q = real({b, s, heads, d}), k = real({b, s, kv, d}), lse = real({b, heads, s});
  const auto rows_of = [&](std::string name, const ir::Attrs& mask, double pairs) -> std::vector<CostRow> {
    const double scores = b * heads * pairs;
    return {{name, "attention", {q, k, k}, mask, 4 * scores * d, scores},
            {name + "_grad", "attention_grad", {q, k, k, q, lse, q}, mask, 10 * scores * d, scores}};
  };
  std::vector<CostRow> rows = rows_of("attention", {}, s * s);
  for (CostRow& row : rows_of("attention_causal", {{"causal", int64_t{1}}}, s * (s + 1) / 2.0)) rows.push_back(row);
  // Positions 0 and 1 see 1 and 2 keys, the others 3.
  for (CostRow& row : rows_of("attention_window", {{"causal", int64_t{1}}, {"window", int64_t{3}}}, 1 + 2 + 4 * 3))
    rows.push_back(row);
  return rows;
}

// In chunks of q positions: C B^T of each group (q n), and of each head its product with x (q p), the state from x and
// B (n p) and what C reads of it (n p). The gradient has 3, 2 and 5 of them.
std::vector<CostRow> ssd_rows() {
  constexpr int64_t b = 2, s = 12, g = 2, e = 3, p = 4, n = 5, q = 4;
  const ir::TensorType x = real({b, s, g * e, p}), dt = real({b, s, g * e}), a = real({g * e}), bc = real({b, s, g, n});
  const ir::Attrs chunks = {{"chunk", q}}, one_chunk = {{"chunk", int64_t{100}}};
  const Types operands = {x, dt, a, bc, bc};
  Types with_cotangent = operands;
  with_cotangent.push_back(x);
  return {{"ssd", "ssd", operands, chunks, 2.0 * b * s * (g * q * n + g * e * (q * p + 2 * n * p))},
          {"ssd_one_chunk", "ssd", operands, one_chunk, 2.0 * b * s * (g * s * n + g * e * (s * p + 2 * n * p))},
          {"ssd_grad", "ssd_grad", with_cotangent, chunks,
           2.0 * b * s * (3 * g * q * n + g * e * (2 * q * p + 5 * n * p))}};
}

// Each of the `width` taps once for every element.
std::vector<CostRow> conv_rows() {
  const ir::TensorType x = real({2, 9, 6});
  return {{"conv", "causal_conv", {x, real({6, 4})}, {}, 2.0 * 2 * 9 * 6 * 4},
          {"conv_weight", "causal_conv_weight", {x, x}, {{"width", int64_t{4}}}, 2.0 * 2 * 9 * 6 * 4}};
}

// Each scalar op, and each element that a reduction takes up, once for every element of the iteration; loads, constants
// and stores are none.
std::vector<CostRow> fused_rows() {
  const auto row = [](std::string name, Types operands, ir::Shape shape, std::string program, std::string dtypes,
                      double each) -> CostRow {
    const double elements = static_cast<double>(ir::num_elements(shape));
    return {std::move(name),
            "fused",
            std::move(operands),
            {{"program", std::move(program)}, {"shape", shape}, {"dtypes", std::move(dtypes)}},
            each * elements};
  };
  return {row("fused_silu", {real({4, 6})}, {4, 6}, "in(0,1) logistic(%0) mul(%0,%1) out(%2)", "f32", 2),
          row("fused_sum", {real({2, 4, 6}), real({2, 6})}, {2, 4, 6},
              "in(0,1,2) in(0,2) const(2) mul(%0,%1) out(%3) sum(%3;3)", "f32 f32", 2)};
}

std::vector<CostRow> all_rows() {
  std::vector<CostRow> rows = dot_rows();
  for (const auto& more : {ragged_rows(), attention_rows(), ssd_rows(), conv_rows(), fused_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

class CostTest : public testing::TestWithParam<CostRow> {};
INSTANTIATE_TEST_SUITE_P(Products, CostTest, testing::ValuesIn(all_rows()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CostTest, IsTheFormula) {
  const CostRow& row = GetParam();
  const OpDef& op = op_def(row.op);
  const Types results = op.infer(row.operands, row.attrs);
  const Cost cost = op.cost({row.operands, results, row.attrs});
  EXPECT_DOUBLE_EQ(cost.flops, row.flops);
  EXPECT_DOUBLE_EQ(cost.exponentials, row.exponentials);
}

// XLA gets one product for each expert where rows are packed, and one of all where each has its own places.
TEST(CostTest, OfPackedRowsXlaMultipliesAllWithEveryExpert) {
  for (const CostRow& row : ragged_rows()) {
    const OpDef& op = op_def(row.op);
    if (!op.stablehlo) continue;  // never reaches XLA
    const Types results = op.infer(row.operands, row.attrs);
    const double experts = static_cast<double>(row.operands[2].dim(-1));
    ASSERT_TRUE(op.cost_by_xla) << row.name;
    EXPECT_DOUBLE_EQ(op.cost_by_xla({row.operands, results, row.attrs}).flops,
                     row.name == "ragged_placed" ? row.flops : experts * row.flops)
        << row.name;
  }
}

}  // namespace
}  // namespace megacpp::ops
