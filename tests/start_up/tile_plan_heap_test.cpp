// SPDX-License-Identifier: Apache-2.0
// The tile plan of attention at a million tokens: its bytes grow with the sequence, not with its square, for every kind
// of mask.
#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cpu/kernels/attention_blocks.h"
#include "megacpp/program/ops/attention_mask.h"
#include "tests/start_up/heap_peak.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kTokens = int64_t{1} << 20;
constexpr int64_t kKeyBlock = 64;
constexpr int64_t kBytesPerToken = 4;  // two lists of blocks and what sorts them take about two

struct MaskCase {
  std::string name;
  ops::AttentionMask mask;
  bool documents = false, placed = false;
};

void PrintTo(const MaskCase& c, std::ostream* out) { *out << c.name; }

struct Cost {
  int64_t peak_bytes = 0;
  int64_t tiles_of_longest = 0;  // of the query block with the most pairs
  int64_t query_blocks = 0;
};

class TilePlanHeapTest : public testing::TestWithParam<MaskCase> {
 protected:
  static ir::Attrs attrs() {
    const auto& [name, mask, documents, placed] = GetParam();
    return {{"causal", int64_t{mask.causal}},      {"window", mask.window},
            {"sparse_block", mask.sparse_block},   {"sparse_local", mask.sparse_local},
            {"sparse_global", mask.sparse_global}, {"documents", int64_t{documents}},
            {"placed", int64_t{placed}},           {"scale", 1.0}};
  }

  /// Makes the plan and visits the tiles of one query block, as a kernel's task does.
  static Cost plan_and_visit(int64_t tokens) {
    const ops::Types types = {{ir::DType::f32, {1, tokens, 2, 4}}, {ir::DType::f32, {1, tokens, 1, 4}}};
    const ir::Attrs attributes = attrs();
    const AttentionSizes sizes({types, types, attributes});
    std::vector<int32_t> segments(static_cast<size_t>(tokens)), positions(static_cast<size_t>(tokens));
    for (size_t i = 0; i < segments.size(); ++i) {
      segments[i] = static_cast<int32_t>(i / 1000);
      positions[i] = static_cast<int32_t>(i);
    }
    std::vector<std::byte*> operands(ops::kAttentionOperands, nullptr);
    const ops::TokenOperands tokens_of_op = ops::TokenOperands::behind(operands.size(), attributes);
    for (std::vector<int32_t>* list : {&segments, &positions})
      if (list == &segments ? GetParam().documents : GetParam().placed)
        operands.insert(operands.end(), 2, reinterpret_cast<std::byte*>(list->data()));  // of queries and of keys
    base::ThreadPool pool(1);
    const KernelArgs args{.operands = operands, .results = {}, .workspace = nullptr, .pool = pool};

    const testing_support::HeapWatch heap;
    const TilePlan plan(attributes, sizes, kKeyBlock);
    const TokenMask token_mask(GetParam().mask, tokens_of_op, sizes, args, 0);
    Cost cost{.query_blocks = static_cast<int64_t>(plan.query_blocks().size())};
    plan.for_each_tile_of_queries(plan.query_blocks().front(), [&](Tile tile) {
      token_mask.trim(tile);
      ++cost.tiles_of_longest;
    });
    cost.peak_bytes = heap.peak_bytes();
    return cost;
  }
};

TEST_P(TilePlanHeapTest, BytesGrowWithTheTokens) {
  const Cost half = plan_and_visit(kTokens / 2), whole = plan_and_visit(kTokens);
  EXPECT_LE(whole.peak_bytes, kBytesPerToken * kTokens);
  EXPECT_LE(whole.peak_bytes, 5 * half.peak_bytes / 2) << half.peak_bytes;
  EXPECT_GT(whole.peak_bytes, 0) << "the heap is not watched";
  // A plan that keeps its tiles, at least half of the longest block's for each block, would be found.
  const int64_t tiles = whole.tiles_of_longest * whole.query_blocks / 2;
  EXPECT_GT(tiles * static_cast<int64_t>(sizeof(Tile)), kBytesPerToken * kTokens);
}

INSTANTIATE_TEST_SUITE_P(
    Masks, TilePlanHeapTest,
    testing::Values(MaskCase{"none", {}}, MaskCase{"causal", {.causal = true}},
                    MaskCase{"window", {.causal = true, .window = 4096}},
                    MaskCase{"block_sparse",
                             {.causal = true, .sparse_block = 64, .sparse_local = 48, .sparse_global = 16}},
                    MaskCase{"documents", {.causal = true}, true},
                    MaskCase{"placed_documents", {.causal = true, .window = 4096}, true, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace megacpp::runtime::cpu
