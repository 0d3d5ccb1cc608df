// SPDX-License-Identifier: Apache-2.0
// Long sequences on v6e: attention is the loop that XLA gets, and a chip has enough memory by the plan's rules, and by
// what the TPU compiler placed for these steps (bench/results/2026-11-18-v6e-placed.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/xla/reserve.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::fit {
namespace {

struct LongRow {
  std::string name;
  std::string slice;
  std::vector<std::string> settings;
  int64_t tokens_of_chip;  // queries and keys that meet at once
};

void PrintTo(const LongRow& row, std::ostream* out) { *out << row.name; }

Estimate estimate_of_row(const LongRow& row) {
  std::vector<std::string> settings = row.settings;
  settings.insert(settings.end(), {"train.batch=1", "train.micro_steps=1", "layout.tensor_parallel=4"});
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-1b.yaml", std::move(settings));
  return make_estimate(recipe, {.slice = hw::parse_target(row.slice),
                                .kernels = runtime::cpu::cpu_target(1),
                                .xla_forms = XlaForms{},
                                .reserve = runtime::xla::reserve});
}

class LongContextPlanTest : public testing::TestWithParam<LongRow> {};
INSTANTIATE_TEST_SUITE_P(
    V6e, LongContextPlanTest,
    testing::Values(LongRow{"Tokens32k", "v6e:4x4", {"train.sequence=32768", "layout.context_parallel=4"}, 8192},
                    LongRow{"Tokens128k", "v6e:8x8", {"train.sequence=131072", "layout.context_parallel=16"}, 8192},
                    LongRow{"Tokens128kSparse",
                            "v6e:8x8",
                            {"train.sequence=131072", "layout.context_parallel=16", "model.attention.sparse_block=512",
                             "model.attention.sparse_local=8", "model.attention.sparse_global=1"},
                            8192}),
    [](const auto& info) { return info.param.name; });

// No tensor of the plan pairs the tokens of a chip with each other.
void expect_no_square(const ir::Graph& graph, int64_t tokens) {
  for (const ir::Node& node : graph.nodes())
    for (const ir::TensorType& type : graph.result_types(node))
      EXPECT_LT(std::ranges::count(type.shape, tokens), 2) << node.op << " @" << node.scope << " " << to_string(type);
}

TEST_P(LongContextPlanTest, FitsAChipWithAttentionInBlocks) {
  const Estimate estimate = estimate_of_row(GetParam());
  EXPECT_EQ(estimate.fit.verdict(), FitVerdict::fits) << needed_text(estimate.fit.worst());
  std::set<std::string> attention;
  int64_t temporaries = 0;  // bytes that the rule says a loop holds at most
  for (const compile::Program& program : estimate.compiled.stages[0].programs) {
    expect_no_square(program.graph, GetParam().tokens_of_chip);
    for (const ir::Node& node : program.graph.nodes()) {
      const ops::OpDef& op = ops::op_def(node.op);
      if (op.work != ops::Work::attention && op.work != ops::Work::attention_grad) continue;
      attention.insert(node.op);
      const ops::Types operands = program.graph.operand_types(node), results = program.graph.result_types(node);
      EXPECT_EQ(operands[0].dim(1), GetParam().tokens_of_chip);
      int64_t held = 0;
      for (const ir::TensorType& type : op.temporaries({operands, results, node.attrs})) held += type.bytes();
      temporaries = std::max(temporaries, held);
    }
  }
  EXPECT_EQ(attention, (std::set<std::string>{"blocked_attention", "blocked_attention_grad"}));
  // Of the gradient: scores of one pair of blocks and their gradient, in f32 and bf16, sums of its queries before and
  // after it, dk and dv of the chip's keys, and the list of pairs before and behind its sort. A chip has 7 heads and
  // the one key head that they share.
  constexpr int64_t kHeads = 7, kWidth = 64, kBlock = 512, kF32 = 4, kBf16 = 2;
  const int64_t tokens = GetParam().tokens_of_chip, blocks = tokens / kBlock;
  EXPECT_EQ(temporaries, 2 * kHeads * kBlock * kBlock * (kF32 + kBf16) + 2 * kHeads * kBlock * kWidth * kF32 +
                             2 * tokens * kWidth * kF32 + 2 * blocks * blocks * kF32);
}

// A mask that sees 9 blocks of 512 costs a chip less than half of the dense one, over the same chips.
TEST(LongContextCostTest, ASparseMaskCostsWhatItSees) {
  const auto flops = [](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"train.sequence=131072", "layout.context_parallel=16"});
    return estimate_of_row({"", "v6e:8x8", std::move(settings), 0}).compiled.stages[0].flops;
  };
  const double dense = flops({});
  const double sparse =
      flops({"model.attention.sparse_block=512", "model.attention.sparse_local=8", "model.attention.sparse_global=1"});
  EXPECT_LT(sparse, 0.5 * dense);
}

}  // namespace
}  // namespace megacpp::fit
