// SPDX-License-Identifier: Apache-2.0
// The layout never changes the result: the tiny recipes, small batches, many layouts on 2 to 8 chips. Five steps on
// each give the losses, gradient norms and final parameters of the one-chip run, and every chip uses exactly the memory
// that was planned. One row is one line of --set overrides; see overrides_of.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/parity/layout_rows.h"
#include "tests/parity/layout_tables.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {
namespace {

class LayoutParityTest : public testing::TestWithParam<LayoutRow> {};

TEST_P(LayoutParityTest, TrainsAsOnOneChip) {
  for (const int64_t seed : {1, 2, 3}) {
    const Comparison comparison = compare_with_one_chip(recipe_of(GetParam(), seed));
    if (!comparison.on_edge) {
      EXPECT_EQ(comparison.problems, "") << "with seed " << seed;
      return;
    }
    std::cout << "seed " << seed << " stands on an edge:\n" << comparison.problems;
  }
  FAIL() << "every seed stands on an edge";
}

INSTANTIATE_TEST_SUITE_P(Adapters, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny",
                                                          std::string(kFewBlocks56r) + std::string(kAdapters),
                                                          kAdapterLayouts)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Letters, LayoutParityTest,
                         testing::ValuesIn(rows_of("jamba-tiny", kOwnLetters, kLetterLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Routers, LayoutParityTest,
                         testing::ValuesIn(rows_of("jamba-tiny", kTwoRouters, kRouterLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(JambaStages, LayoutParityTest,
                         testing::ValuesIn(rows_of("jamba-tiny", "", {"pipeline_parallel=2 tensor_parallel=2"})),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam52, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam52-tiny", kFewBlocks52, kCommonLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam52Stages, LayoutParityTest, testing::ValuesIn(narrow_rows_of("nam52-tiny", "", kStages)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam52Heads, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam52-tiny", kFewBlocks52, kDenseLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56r, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", kFewBlocks56r, kCommonLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rDocuments, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny",
                                                          "model.pattern=AEMR model.depth=4 " + kDocumentMasks,
                                                          kDocumentLayouts)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rStages, LayoutParityTest, testing::ValuesIn(narrow_rows_of("nam56r-tiny", "", kStages)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExperts, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", kFewBlocks56r, kExpertLayouts)), row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExpertStages, LayoutParityTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", "", kExpertStages)), row_name);

}  // namespace
}  // namespace megacpp::testing_support
