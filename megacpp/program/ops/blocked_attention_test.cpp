// SPDX-License-Identifier: Apache-2.0
// Where attention is a loop, and that the loop's text computes what its cost says. What it computes is compared with
// the reference by every plugin that runs the op's samples.
#include "megacpp/program/ops/blocked_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <sstream>

#include "megacpp/program/ops/attention_block_table.h"
#include "megacpp/program/ops/attention_mask.h"
#include "tests/support/text.h"

namespace megacpp::ops {
namespace {

constexpr int64_t kHeads = 4, kKeyHeads = 2, kWidth = 16;

const ir::Attrs kDense = {{"scale", 0.25}};
const ir::Attrs kPlainCausal = {{"scale", 0.25}, {"causal", int64_t{1}}};
const ir::Attrs kShortWindow = {{"scale", 0.25}, {"causal", int64_t{1}}, {"window", int64_t{700}}};
const ir::Attrs kGlobalBlock = {{"scale", 0.25},
                                {"causal", int64_t{1}},
                                {"sparse_block", int64_t{512}},
                                {"sparse_global", int64_t{1}},
                                {"sparse_local", int64_t{2}}};

ir::Attrs placed(ir::Attrs attrs) {
  attrs.set("placed", int64_t{1});
  return attrs;
}

/// A node of attention or its gradient, or of their looped forms.
struct LoneAttention {
  const OpDef& op;
  Types operands, results;
  ir::Attrs attrs;

  LoneAttention(std::string_view name, int64_t queries, int64_t keys, ir::Attrs attributes)
      : op(op_def(name)), attrs(std::move(attributes)) {
    const ir::TensorType q{ir::DType::bf16, {1, queries, kHeads, kWidth}}, k{q.dtype, {1, keys, kKeyHeads, kWidth}};
    operands = {q, k, k};
    if (name.ends_with("_grad")) {
      const ir::TensorType lse{ir::DType::f32, {1, kHeads, queries}};
      operands.insert(operands.end(), {q, lse, q});
    }
    if (attrs.flag("placed")) operands.insert(operands.end(), {{ir::DType::i32, {queries}}, {ir::DType::i32, {keys}}});
    results = op.infer(operands, attrs);
  }
  LoneAttention(std::string_view name, int64_t tokens, ir::Attrs attributes)
      : LoneAttention(name, tokens, tokens, std::move(attributes)) {}

  NodeView view() const { return {operands, results, attrs}; }

  std::string text() const {
    const ir::Mesh mesh;
    int64_t channel = 1;
    HloWriter writer(mesh, channel);
    std::vector<HloValue> values;
    for (size_t i = 0; i < operands.size(); ++i) values.push_back({"%arg" + std::to_string(i), hlo_type(operands[i])});
    const NodeView seen = view();
    const HloResults written = op.stablehlo(writer, {values, seen});
    for (size_t r = 0; r < results.size(); ++r) EXPECT_EQ(written[r].type, hlo_type(results[r])) << "result " << r;
    return writer.text();
  }
};

std::vector<int64_t> numbers_in(const std::string& text, char between) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, between);) numbers.push_back(std::stoll(number));
  return numbers;
}

double product_of(const std::vector<int64_t>& sizes) {
  double product = 1;
  for (const int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

/// Of all products in the text, each once.
double flops_written(const std::string& text) {
  const std::regex form(
      "dot_general.*lhs_contracting_dimensions = \\[([0-9, ]+)\\].* : \\(tensor<([0-9x]+)x[a-z0-9]+>, .*\\) -> "
      "\\(tensor<([0-9x]+)xf32>\\)");
  double flops = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, form)) continue;
    const std::vector<int64_t> lhs = numbers_in(found[2], 'x');
    double summed = 1;
    for (const int64_t dim : numbers_in(found[1], ',')) summed *= static_cast<double>(lhs[static_cast<size_t>(dim)]);
    flops += 2 * product_of(numbers_in(found[3], 'x')) * summed;
  }
  return flops;
}

/// The constant that the condition of the text's first loop compares with.
double trips_written(const std::string& text) {
  const std::string key = "dense<";
  const size_t at = text.find(key, text.find("stablehlo.while"));
  return std::stod(text.substr(at + key.size()));
}

TEST(BlockedAttentionTest, TheTextMultipliesAsOftenAsTheCostSays) {
  for (const char* name : {"blocked_attention", "blocked_attention_grad"})
    for (const ir::Attrs& attrs : {kDense, kPlainCausal, kShortWindow, kGlobalBlock})
      for (const int64_t tokens : {1300, 4096, 32768}) {
        SCOPED_TRACE(testing::Message() << name << " of " << tokens);
        const LoneAttention node(name, tokens, attrs);
        const std::string text = node.text();
        ASSERT_EQ(testing_support::count_of(text, "stablehlo.while"), 1u);
        const double written = trips_written(text) * flops_written(text);
        EXPECT_GT(written, 0);
        EXPECT_DOUBLE_EQ(node.op.cost(node.view()).flops, written);
      }
}

// With one global block a layer of 4096 tokens computed as much as a dense one.
TEST(BlockedAttentionTest, AGlobalBlockCostsABlock) {
  const auto flops = [](const ir::Attrs& attrs) {
    const LoneAttention node("blocked_attention", 4096, attrs);
    return node.op.cost(node.view()).flops;
  };
  EXPECT_DOUBLE_EQ(flops(kGlobalBlock) / flops(kPlainCausal), 21.0 / 36);
}

/// The second largest dimension of any tensor in the text.
int64_t second_dimension(const std::string& text) {
  const std::regex type("tensor<([0-9]+(?:x[0-9]+)+)x[a-z]");
  int64_t most = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), type), end; at != end; ++at) {
    std::vector<int64_t> sizes = numbers_in((*at)[1], 'x');
    std::ranges::sort(sizes, std::greater<>());
    most = std::max(most, sizes[1]);
  }
  return most;
}

TEST(BlockedAttentionTest, NeitherTextNorScoresGrowWithTheSequence) {
  for (const char* name : {"blocked_attention", "blocked_attention_grad"})
    for (const ir::Attrs& attrs : {kPlainCausal, kGlobalBlock, placed(kPlainCausal)}) {
      const std::string shorter = LoneAttention(name, 32768, attrs).text();
      const std::string longer = LoneAttention(name, 131072, attrs).text();
      EXPECT_EQ(second_dimension(longer), kAttentionBlock) << name;
      EXPECT_NEAR(static_cast<double>(longer.size()) / static_cast<double>(shorter.size()), 1, 0.03) << name;
    }
}

TEST(BlockedAttentionTest, TemporariesAreThoseOfABlockAndTheSumsOfKeys) {
  const auto bytes = [](const char* name, int64_t tokens) {
    const LoneAttention node(name, tokens, kPlainCausal);
    int64_t sum = 0;
    for (const ir::TensorType& type : node.op.temporaries(node.view())) sum += type.bytes();
    return sum;
  };
  const auto lists = [](int64_t tokens) {  // of pairs: i32 before and behind the sort
    const int64_t blocks = tokens / kAttentionBlock;
    return 2 * blocks * blocks * 4;
  };
  constexpr int64_t kScores = kHeads * kAttentionBlock * kAttentionBlock, kRows = kAttentionBlock * kHeads * kWidth;
  EXPECT_EQ(bytes("blocked_attention", 32768), kScores * (4 + 2) + 2 * kRows * 4 + lists(32768));
  EXPECT_EQ(bytes("blocked_attention", 131072) - bytes("blocked_attention", 32768), lists(131072) - lists(32768));
  constexpr int64_t kFilled = 33280;  // 65 blocks
  EXPECT_EQ(bytes("blocked_attention", kFilled - 1) - bytes("blocked_attention", kFilled),
            2 * kFilled * (kHeads + kKeyHeads) * kWidth * 2)
      << "copies of q, out, k and v with full blocks";
  EXPECT_EQ(bytes("blocked_attention_grad", 131072) - bytes("blocked_attention_grad", 32768),
            2 * (131072 - 32768) * kKeyHeads * kWidth * 4 + lists(131072) - lists(32768));
}

TEST(BlockedAttentionTest, IsTakenForLongSequencesAndForMasksThatLeaveOutMuch) {
  struct Row {
    int64_t queries, keys;
    ir::Attrs attrs;
    bool is_loop;
  };
  const std::vector<Row> rows = {{kLongestUnrolled, kLongestUnrolled, kPlainCausal, false},
                                 {kLongestUnrolled, kLongestUnrolled, kShortWindow, false},
                                 {kLongestUnrolled, kLongestUnrolled, kGlobalBlock, true},
                                 {2 * kLongestUnrolled, 2 * kLongestUnrolled, kPlainCausal, true},
                                 {256, 256, kGlobalBlock, false},
                                 {1024, 1024, placed(kPlainCausal), true},
                                 {1024, 1024, placed(kDense), false},
                                 {1, 131072, placed(kPlainCausal), false}};
  for (const char* name : {"attention", "attention_grad"})
    for (const Row& row : rows) {
      const LoneAttention node(name, row.queries, row.keys, row.attrs);
      EXPECT_EQ(node.op.looped(node.view()), row.is_loop ? "blocked_" + std::string(name) : "")
          << name << " of " << row.queries << " to " << row.keys << " " << to_string(node.operands[0]);
    }
}

}  // namespace
}  // namespace megacpp::ops
