// SPDX-License-Identifier: Apache-2.0
// Rows of tables of layouts: a tiny recipe, made smaller still, and one line of --set overrides; see overrides_of.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/recipe/parse.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {

struct LayoutRow {
  std::string recipe;  // "nam52-tiny"
  std::string blocks;  // overrides of all rows of its list
  std::string words;
};

inline void PrintTo(const LayoutRow& row, std::ostream* out) { *out << row.recipe << " " << row.blocks << row.words; }

// Small, and with everything in the loss and the update that could be summed over the wrong chips: clipping at work
// from the first step, a z-loss, micro-steps.
inline constexpr std::string_view kSmall =
    "train.batch=4 train.sequence=32 train.steps=5 train.threads=2 train.micro_steps=2 optimizer.warmup_steps=2 "
    "optimizer.lr=0.001 optimizer.clip=0.5 model.z_loss=0.001 model.mamba.chunk=8 ";
// Above the rounding of the gradients: where a gradient is nothing but rounding, Adam would blow it up to a full step.
inline constexpr std::string_view kAdamEps = "optimizer.eps=1e-6";

// Every family, experts in two blocks; stages get the recipe's own twelve blocks.
inline constexpr std::string_view kFewBlocks52 = "model.depth=4 ";
inline constexpr std::string_view kFewBlocks56r = "model.pattern=AEMER model.depth=5 ";

// Half as wide as the recipes, for backends that multiply on the cores of this machine: a fourth of the products' time.
inline constexpr std::string_view kNarrow52 =
    "model.hidden=64 model.attention.head_dim=16 model.feed_forward.intermediate=176 ";
inline constexpr std::string_view kNarrow56r =
    "model.hidden=64 model.attention.head_dim=16 model.mamba.head_dim=16 model.feed_forward.intermediate=64 "
    "model.feed_forward.shared_intermediate=64 model.recurrent.width=64 ";

// Letters of the recipe's own: dense and routed E blocks, attention with other KV heads and a window, in one pattern;
// and two letters that route, with other counts of experts and other losses.
inline constexpr std::string_view kOwnLetters =
    "model.pattern=ADGEM model.depth=5 model.letters.G.family=A model.letters.G.attention.kv_heads=1 "
    "model.letters.G.attention.window=7 model.letters.G.attention.rope=true ";
inline constexpr std::string_view kTwoRouters =
    "model.pattern=ADEF model.depth=4 model.letters.F.family=E model.letters.F.feed_forward.experts=2 "
    "model.letters.F.feed_forward.balance_over=model model.letters.F.feed_forward.z_loss=0.01 ";

inline recipe::Recipe recipe_of(const LayoutRow& row, int64_t seed) {
  std::vector<std::string> overrides = overrides_of(kSmall);
  for (std::string& word : overrides_of(row.blocks + row.words)) overrides.push_back(std::move(word));
  if (row.words.find("optimizer.name=") == std::string::npos) overrides.emplace_back(kAdamEps);
  overrides.push_back("train.seed=" + std::to_string(seed));
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + row.recipe + ".yaml", overrides);
}

inline std::vector<LayoutRow> rows_of(const std::string& recipe, std::string_view blocks,
                                      const std::vector<std::string>& lines) {
  std::vector<LayoutRow> rows;
  for (const std::string& line : lines) rows.push_back({recipe, std::string(blocks), line});
  return rows;
}

/// Of nam52-tiny or nam56r-tiny, half as wide.
inline std::vector<LayoutRow> narrow_rows_of(const std::string& recipe, std::string_view blocks,
                                             const std::vector<std::string>& lines) {
  const std::string_view widths = recipe == "nam52-tiny" ? kNarrow52 : kNarrow56r;
  return rows_of(recipe, std::string(widths) + std::string(blocks), lines);
}

inline std::string row_name(const testing::TestParamInfo<LayoutRow>& info) { return test_name(info.param.words); }

}  // namespace megacpp::testing_support
