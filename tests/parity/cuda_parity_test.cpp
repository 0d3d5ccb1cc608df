// SPDX-License-Identifier: Apache-2.0
// The CUDA backend on a GPU: golden files of public reference models, and the tiny recipes in many layouts on virtual
// chips of the card against one chip of the CPU backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "tests/parity/half_precision.h"
#include "tests/parity/layout_rows.h"
#include "tests/parity/layout_tables.h"
#include "tests/parity/training_comparison.h"
#include "tests/support/gpu_test.h"

namespace megacpp::testing_support {
namespace {

const runtime::Backend& cuda() { return runtime::backend_named("cuda"); }

// ---- Golden files ----

const std::filesystem::path kReferenceModels = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/models";

class CudaGoldenParityTest : public GpuTest, public testing::WithParamInterface<std::string> {};

TEST_P(CudaGoldenParityTest, OutputsAndEveryGradientEqualTheReference) {
  const train::ParityReport report =
      train::run_parity(kReferenceModels / (GetParam() + ".safetensors"), recipe::Recipe(), cuda());
  EXPECT_TRUE(report.passed());
  for (const train::ParityRow& row : report.rows)
    EXPECT_TRUE(row.passed) << row.name << " is off by " << row.relative_error << ", allowed is " << row.tolerance;
}

std::vector<std::string> reference_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kReferenceModels))
    names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenParityTest, testing::ValuesIn(reference_models()),
                         [](const auto& info) { return info.param; });

// ---- Layouts ----

void expect_trains_as_one_chip_of_the_cpu(const LayoutRow& row, const Tolerances& tolerances) {
  for (const int64_t seed : {1, 2, 3}) {
    const Comparison comparison = compare_with_one_chip(recipe_of(row, seed), cuda(), tolerances);
    if (!comparison.on_edge) {
      EXPECT_EQ(comparison.problems, "") << "with seed " << seed;
      return;
    }
    std::cout << "seed " << seed << " stands on an edge:\n" << comparison.problems;
  }
  FAIL() << "every seed stands on an edge";
}

class CudaLayoutParityTest : public GpuTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(CudaLayoutParityTest, TrainsAsOneChipOfTheCpuBackend) { expect_trains_as_one_chip_of_the_cpu(GetParam(), {}); }

// A step as one graph; everything else of these tables is on several virtual chips.
const std::vector<std::string> kOneChip = {
    "chips=1",
    "chips=1 train.recompute=full model.tie_embeddings=true",
    "chips=1 train.micro_steps=1 optimizer.name=muon optimizer.eps=1e-6",
    "chips=1 optimizer.name=sgd",
};

INSTANTIATE_TEST_SUITE_P(OneChip52, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52, kOneChip)), row_name);
INSTANTIATE_TEST_SUITE_P(OneChip56r, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", kFewBlocks56r, kOneChip)), row_name);
INSTANTIATE_TEST_SUITE_P(Letters, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("jamba-tiny", kOwnLetters, kLetterLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52, kCommonLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52Heads, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52, kDenseLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52Stages, CudaLayoutParityTest, testing::ValuesIn(rows_of("nam52-tiny", "", kStages)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rDocuments, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", "model.pattern=AEMR model.depth=4 " + kDocumentMasks,
                                                   kDocumentLayouts)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExperts, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", kFewBlocks56r, kExpertLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExpertStages, CudaLayoutParityTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", "", kExpertStages)), row_name);

// ---- bf16 ----

class CudaHalfPrecisionTest : public GpuTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(CudaHalfPrecisionTest, LossesFollowTheCpuBackend) {
  const Tolerances tolerances{
      .losses = 1e-2, .norms = INFINITY, .dropped = INFINITY, .parameters = INFINITY, .moments = INFINITY};
  expect_trains_as_one_chip_of_the_cpu(GetParam(), tolerances);
}

INSTANTIATE_TEST_SUITE_P(Nam52, CudaHalfPrecisionTest,
                         testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52,
                                                   {"train.precision=bf16 chips=1",
                                                    "train.precision=bf16 tensor_parallel=2",
                                                    "train.precision=bf16 data_parallel=2 zero=3"})),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56r, CudaHalfPrecisionTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", kFewBlocks56r,
                                                   {"train.precision=bf16 chips=1",
                                                    "train.precision=bf16 data_parallel=2 zero=3"})),
                         row_name);

class CudaHalfPrecisionGradientTest : public GpuTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(CudaHalfPrecisionGradientTest, EveryGradientIsThatOfSinglePrecisionButForRounding) {
  LayoutRow half = GetParam(), single = GetParam();
  half.words = "train.precision=bf16";
  single.words = "train.precision=f32";
  const std::string problems = half_precision_problems(
      [&](int64_t seed) { return run_gradients(recipe_of(half, seed), cuda()); },
      [&](int64_t seed) { return run_gradients(recipe_of(single, seed), runtime::backend_named("cpu")); }, 8);
  EXPECT_EQ(problems, "");
}

INSTANTIATE_TEST_SUITE_P(Recipes, CudaHalfPrecisionGradientTest,
                         testing::Values(LayoutRow{"nam52-tiny", std::string(kFewBlocks52), ""},
                                         LayoutRow{"nam56r-tiny", std::string(kFewBlocks56r), ""}),
                         [](const auto& info) { return info.param.recipe.substr(0, info.param.recipe.find('-')); });

}  // namespace
}  // namespace megacpp::testing_support
