// SPDX-License-Identifier: Apache-2.0
// The XLA lane on the devices of the CPU plugin, in both placements, with blocks in loops and unrolled: golden files of
// public reference models, and the tiny recipes in many layouts against one chip of the CPU backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/block_loops.h"
#include "tests/parity/half_precision.h"
#include "tests/parity/layout_rows.h"
#include "tests/parity/training_comparison.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/xla_backend.h"

namespace megacpp::testing_support {
namespace {

using emit::Placement;

constexpr Placement kPlacements[] = {Placement::megacpp, Placement::xla};

const char* name_of(Placement placement) { return placement == Placement::xla ? "placement xla" : "placement megacpp"; }

// ---- Golden files ----

const std::filesystem::path kGoldenModels = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models";

struct GoldenRow {
  std::string file;
  std::string words;
};

void PrintTo(const GoldenRow& row, std::ostream* out) { *out << row.file << " " << row.words; }

class XlaGoldenParityTest : public CpuPluginTest, public testing::WithParamInterface<GoldenRow> {};

TEST_P(XlaGoldenParityTest, OutputsAndEveryGradientEqualTheReference) {
  recipe::Recipe wish;
  recipe::apply_overrides(wish, overrides_of(GetParam().words));
  for (const Placement placement : kPlacements) {
    SCOPED_TRACE(name_of(placement));
    const train::ParityReport report =
        train::run_parity(kGoldenModels / (GetParam().file + ".safetensors"), wish, xla_backend(placement));
    EXPECT_TRUE(report.passed());
    for (const train::ParityRow& row : report.rows)
      EXPECT_TRUE(row.passed) << row.name << " is off by " << row.relative_error << ", allowed is " << row.tolerance;
    if (wish.layout == recipe::Layout{}) break;  // on one device both placements are one
  }
}

// Every file on one device, those whose blocks repeat in loops and unrolled, and some in layouts that their sizes do
// not divide by.
std::vector<GoldenRow> golden_rows() {
  std::vector<GoldenRow> rows;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenModels))
    rows.push_back({entry.path().stem().string(), ""});
  std::ranges::sort(rows, {}, &GoldenRow::file);
  for (const char* file :
       {"llama_odd", "llama_tiny", "mamba2_ragged", "mamba2_tiny", "mixtral_four", "mixtral_tiny", "mixtral_top3"})
    rows.push_back({file, "xla.loops=off"});
  rows.push_back({"llama_odd", "data_parallel=2"});
  rows.push_back({"mamba2_groups", "tensor_parallel=3 sequence_parallel=false"});
  rows.push_back({"mixtral_four", "expert_parallel=4"});
  rows.push_back({"rglru_block", "context_parallel=3 load_balance=false"});
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Models, XlaGoldenParityTest, testing::ValuesIn(golden_rows()), [](const auto& info) {
  return info.param.file + (info.param.words.empty() ? "" : "_" + test_name(info.param.words));
});

// ---- Layouts ----

class XlaLayoutParityTest : public CpuPluginTest, public testing::WithParamInterface<LayoutRow> {};

constexpr std::string_view kUnrolled = "xla.loops=off ";

/// The same rows, every block by itself and with state of its own.
std::vector<LayoutRow> unrolled(std::vector<LayoutRow> rows) {
  for (LayoutRow& row : rows) row.blocks += kUnrolled;
  return rows;
}

bool is_unrolled(const LayoutRow& row) { return row.blocks.ends_with(kUnrolled); }

void expect_trains_as_one_chip(const LayoutRow& row, Placement placement, const Tolerances& tolerances) {
  for (const int64_t seed : {1, 2, 3}) {
    const Comparison comparison = compare_with_one_chip(recipe_of(row, seed), xla_backend(placement), tolerances);
    if (!comparison.on_edge) {
      EXPECT_EQ(comparison.problems, "") << "with seed " << seed;
      return;
    }
    std::cout << "seed " << seed << " stands on an edge:\n" << comparison.problems;
  }
  FAIL() << "every seed stands on an edge";
}

TEST_P(XlaLayoutParityTest, TrainsAsOneChipOfTheCpuBackend) {
  const recipe::Recipe recipe = recipe_of(GetParam(), 1);
  ASSERT_TRUE(!is_unrolled(GetParam()) || recipe::has_repeated_blocks(recipe.model)) << "else it is unrolled as it is";
  for (const Placement placement : kPlacements) {
    SCOPED_TRACE(name_of(placement));
    expect_trains_as_one_chip(GetParam(), placement, {});
    if (plan::make_plan(recipe).parallel.mesh.chips() == 1) break;
  }
}

// The hybrid's blocks cost XLA more than the dense ones: fewer of them, and fewer layouts, of which none is a part of
// another row or of those of the dense recipe.
constexpr std::string_view kEachFamilyOnce = "model.pattern=AEMR model.depth=4 ";

const std::vector<std::string> kXlaDenseLayouts = {
    "chips=1",
    "data_parallel=3",  // 4 sequences over 3 chips
    "data_parallel=4 zero=1",
    "data_parallel=4 zero=2 train.micro_steps=1",
    "data_parallel=4 zero=3 model.tie_embeddings=true",
    "data_parallel=2 policy=fsdp",
    "data_parallel=2 policy=megatron",
    "tensor_parallel=4 sequence_parallel=false model.vocab=259",  // 2 chips share a key-value head
    "data_parallel=3 tensor_parallel=2 zero=3 model.vocab=257",   // padding inside shares
    "context_parallel=2 model.attention.document_mask=true",
    "context_parallel=2 context_attention=alltoall",
    "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
};

const std::vector<std::string> kHybridLayouts = {
    "data_parallel=2 tensor_parallel=2 zero=2 optimizer.name=muon optimizer.eps=1e-6",
    "chips=1",
    "data_parallel=2 zero=3 train.micro_steps=1 model.tie_embeddings=true",
    "data_parallel=2 tensor_parallel=2 zero=3 lora.rank=3",
    "context_parallel=2 load_balance=false context_attention=alltoall",
    "context_parallel=2 model.attention.document_mask=true model.mamba.document_mask=true "
    "model.recurrent.document_mask=true",
};

// Three times the pattern: the passes are loops over stacked state. What Muon and adapters stack are matrices, of
// whichever family: those rows are without the scans, which XLA takes long to compile.
constexpr std::string_view kEachFamilyInLoops = "model.pattern=AEMR model.depth=12 ";
const std::vector<std::string> kLoopLayouts = {"chips=1",
                                               "data_parallel=2 tensor_parallel=2 zero=3 train.recompute.E=full"};
constexpr std::string_view kMatricesInLoops = "model.pattern=AE model.depth=6 ";
const std::vector<std::string> kMatrixLoopLayouts = {
    "data_parallel=2 zero=1 optimizer.name=muon optimizer.eps=1e-6",
    "data_parallel=2 zero=3 lora.rank=3",  // frozen and trained state in stacks of their own
};

// Experts in two blocks, without the scans but in the layout that splits all there is.
constexpr std::string_view kTwoExpertBlocks = "model.pattern=EAE model.depth=3 ";
const std::vector<std::string> kXlaExpertLayouts = {
    "data_parallel=2 expert_parallel=2 zero=3 optimizer.name=muon optimizer.eps=1e-6",
    "expert_parallel=4 model.feed_forward.capacity_factor=0 dispatcher=allgather",
    "expert_parallel=2 model.feed_forward.bias_rate=0.01 model.feed_forward.scoring=sigmoid",
    "data_parallel=2 expert_parallel=2 zero=1",
    "expert_parallel=2 tensor_parallel=2 policy=fsdp",
    "data_parallel=2 expert_parallel=2 tensor_parallel=2 zero=3 model.pattern=AEMER model.depth=5",
};

// Letters of the recipe's own, on a mesh and, twice over, in loops; without the scans.
constexpr std::string_view kLettersInLoops = "model.pattern=ADE model.depth=6 ";
INSTANTIATE_TEST_SUITE_P(
    Letters, XlaLayoutParityTest,
    testing::ValuesIn(rows_of("jamba-tiny", kOwnLetters,
                              {"expert_parallel=2 tensor_parallel=2 model.pattern=ADGE model.depth=4"})),
    row_name);

// Rows whose blocks repeat run twice, in loops and unrolled; those of the others are unrolled as they are.
std::vector<LayoutRow> dense_rows() { return narrow_rows_of("nam52-tiny", kFewBlocks52, kXlaDenseLayouts); }
std::vector<LayoutRow> loop_rows() { return narrow_rows_of("nam56r-tiny", kEachFamilyInLoops, kLoopLayouts); }
std::vector<LayoutRow> matrix_rows() { return narrow_rows_of("nam56r-tiny", kMatricesInLoops, kMatrixLoopLayouts); }
std::vector<LayoutRow> letter_rows() { return rows_of("jamba-tiny", kLettersInLoops, {"data_parallel=2 zero=3"}); }

INSTANTIATE_TEST_SUITE_P(LetterLoops, XlaLayoutParityTest, testing::ValuesIn(letter_rows()), row_name);
INSTANTIATE_TEST_SUITE_P(LettersUnrolled, XlaLayoutParityTest, testing::ValuesIn(unrolled(letter_rows())), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52, XlaLayoutParityTest, testing::ValuesIn(dense_rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52Unrolled, XlaLayoutParityTest, testing::ValuesIn(unrolled(dense_rows())), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56r, XlaLayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", kEachFamilyOnce, kHybridLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rLoops, XlaLayoutParityTest, testing::ValuesIn(loop_rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rUnrolled, XlaLayoutParityTest, testing::ValuesIn(unrolled(loop_rows())), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rMatrixLoops, XlaLayoutParityTest, testing::ValuesIn(matrix_rows()), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rMatricesUnrolled, XlaLayoutParityTest, testing::ValuesIn(unrolled(matrix_rows())),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExperts, XlaLayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", kTwoExpertBlocks, kXlaExpertLayouts)),
                         row_name);

// ---- Long sequences ----

class XlaLongParityTest : public CpuPluginTest, public testing::WithParamInterface<LayoutRow> {};

bool loops_over_blocks(const recipe::Recipe& recipe) {
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe), runtime::pjrt::xla_target(Placement::megacpp));
  for (const compile::Program& program : compiled.stages[0].programs)
    for (const ir::Node& node : program.graph.nodes())
      if (node.op == "blocked_attention_grad") return true;
  return false;
}

TEST_P(XlaLongParityTest, AttentionInALoopTrainsAsOneChipOfTheCpuBackend) {
  ASSERT_TRUE(loops_over_blocks(recipe_of(GetParam(), 1))) << "else nothing is shown";
  expect_trains_as_one_chip(GetParam(), Placement::megacpp, {});
}

// Of one chip the pairs of blocks are known when the program is written; of two each counts its own. Every token sees
// its block of 128 and the first one.
constexpr std::string_view kLongSparse =
    "model.depth=2 train.sequence=2048 train.batch=1 train.micro_steps=1 train.steps=3 "
    "model.attention.sparse_block=128 model.attention.sparse_local=1 model.attention.sparse_global=1 ";
INSTANTIATE_TEST_SUITE_P(Nam52, XlaLongParityTest,
                         testing::ValuesIn(narrow_rows_of("nam52-tiny", kLongSparse,
                                                          {"chips=1", "context_parallel=2"})),
                         row_name);

// ---- bf16 ----

class XlaHalfPrecisionTest : public CpuPluginTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(XlaHalfPrecisionTest, LossesFollowTheCpuBackend) {
  const Tolerances tolerances{
      .losses = 1e-2, .norms = INFINITY, .dropped = INFINITY, .parameters = INFINITY, .moments = INFINITY};
  expect_trains_as_one_chip(GetParam(), Placement::megacpp, tolerances);
}

INSTANTIATE_TEST_SUITE_P(Nam52, XlaHalfPrecisionTest,
                         testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52,
                                                   {"train.precision=bf16 tensor_parallel=2",
                                                    "train.precision=bf16 data_parallel=2 zero=3"})),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56r, XlaHalfPrecisionTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", kEachFamilyOnce,
                                                   {"train.precision=bf16 data_parallel=2 zero=3"})),
                         row_name);

class XlaHalfPrecisionGradientTest : public CpuPluginTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(XlaHalfPrecisionGradientTest, EveryGradientIsThatOfSinglePrecisionButForRounding) {
  LayoutRow half = GetParam(), single = GetParam();
  half.words = "train.precision=bf16";
  single.words = "train.precision=f32";
  const std::string problems = half_precision_problems(
      [&](int64_t seed) { return run_gradients(recipe_of(half, seed), xla_backend(Placement::megacpp)); },
      [&](int64_t seed) { return run_gradients(recipe_of(single, seed), runtime::backend_named("cpu")); }, 3);
  EXPECT_EQ(problems, "");
}

INSTANTIATE_TEST_SUITE_P(Recipes, XlaHalfPrecisionGradientTest,
                         testing::Values(LayoutRow{"nam52-tiny", std::string(kFewBlocks52), ""},
                                         LayoutRow{"nam56r-tiny", std::string(kEachFamilyOnce), ""}),
                         [](const auto& info) { return info.param.recipe.substr(0, info.param.recipe.find('-')); });

}  // namespace
}  // namespace megacpp::testing_support
