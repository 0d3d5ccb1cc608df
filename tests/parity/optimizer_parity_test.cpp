// SPDX-License-Identifier: Apache-2.0
// Ten steps of every optimizer that shards its state, in every kind of layout, against one chip: parameters and what
// the optimizer keeps, closer than layout_parity_test demands.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "megacpp/machine/backends/backend_table.h"
#include "tests/parity/layout_rows.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {
namespace {

constexpr double kTolerance = 1e-5;  // relative, by Euclidean norm

class OptimizerParityTest : public testing::TestWithParam<LayoutRow> {};

TEST_P(OptimizerParityTest, ParametersAndStateAreThoseOfOneChip) {
  const Tolerances tolerances{.losses = kTolerance, .norms = INFINITY, .parameters = kTolerance, .moments = kTolerance};
  for (const int64_t seed : {1, 2, 3}) {
    const Comparison comparison =
        compare_with_one_chip(recipe_of(GetParam(), seed), runtime::backend_named("cpu"), tolerances);
    if (!comparison.on_edge) {
      EXPECT_EQ(comparison.problems, "") << "with seed " << seed;
      return;
    }
    std::cout << "seed " << seed << " stands on an edge:\n" << comparison.problems;
  }
  FAIL() << "every seed stands on an edge";
}

const std::vector<std::string> kLayouts = {
    "data_parallel=4 zero=0",
    "data_parallel=4 zero=1",
    "data_parallel=4 zero=2",
    "data_parallel=4 zero=3",
    "data_parallel=3 zero=3",
    "tensor_parallel=2",
    "tensor_parallel=4",
    "data_parallel=2 tensor_parallel=2 zero=0",
    "data_parallel=2 tensor_parallel=2 zero=1",
    "data_parallel=2 tensor_parallel=2 zero=2",
    "data_parallel=2 tensor_parallel=2 zero=3",
    "context_parallel=2",
    "data_parallel=2 context_parallel=2 zero=0",
    "data_parallel=2 context_parallel=2 zero=1",
    "data_parallel=2 context_parallel=2 zero=2",
    "data_parallel=2 context_parallel=2 zero=3",
    "expert_parallel=2",
    "expert_parallel=4",
    "data_parallel=2 expert_parallel=2 zero=0",
    "data_parallel=2 expert_parallel=2 zero=1",
    "data_parallel=2 expert_parallel=2 zero=2",
    "data_parallel=2 expert_parallel=2 zero=3",
    "expert_parallel=2 tensor_parallel=2 expert_tensor_parallel=1",
    "pipeline_parallel=2 data_parallel=2 zero=0",
    "pipeline_parallel=2 data_parallel=2 zero=1",
    "pipeline_parallel=2 data_parallel=2 zero=2",
    "pipeline_parallel=2 tensor_parallel=2 zero=2",
    "pipeline_parallel=2 data_parallel=2 zero=3",
    "pipeline_parallel=2 data_parallel=2 expert_parallel=2 zero=3",
};

std::vector<LayoutRow> rows_with(std::string_view optimizer) {
  constexpr std::string_view kTenSteps = "model.pattern=AEMR model.depth=4 train.steps=10 optimizer.eps=1e-6 ";
  return narrow_rows_of("nam56r-tiny", std::string(kTenSteps) + std::string(optimizer), kLayouts);
}

INSTANTIATE_TEST_SUITE_P(AdamW, OptimizerParityTest, testing::ValuesIn(rows_with("")), row_name);
INSTANTIATE_TEST_SUITE_P(Muon, OptimizerParityTest, testing::ValuesIn(rows_with("optimizer.name=muon ")), row_name);

}  // namespace
}  // namespace megacpp::testing_support
