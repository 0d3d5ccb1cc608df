// SPDX-License-Identifier: Apache-2.0
// Per-expert load as training reports it: what the reference evaluator counts, on every layout.
#include "megacpp/run/train/expert_shares.h"
#include "megacpp/machine/backends/backend_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/backend/executable_contract.h"
#include "tests/backend/reference_backend.h"

namespace megacpp::testing_support {
namespace {

using Fetches = ContractRun::Fetches;

// Two blocks of four experts, so tight that some requests are dropped.
recipe::Recipe with_experts(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.end(),
                   {"model.pattern=AE", "model.depth=4", "model.feed_forward.experts=4", "model.feed_forward.top_k=2",
                    "model.feed_forward.routing=token_choice", "model.feed_forward.capacity_factor=1.0"});
  return small_recipe(overrides);
}

std::vector<train::StepReport> trained(const recipe::Recipe& recipe) {
  return ContractRun(recipe, runtime::backend_named("cpu"), Fetches::experts).train();
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void expect_equal(const train::StepReport& got, const train::StepReport& wanted) {
  ASSERT_EQ(got.experts.size(), wanted.experts.size());
  for (size_t i = 0; i < wanted.experts.size(); ++i) {
    EXPECT_EQ(got.experts[i].block, wanted.experts[i].block);
    EXPECT_EQ(got.experts[i].share, wanted.experts[i].share) << wanted.experts[i].block;
    EXPECT_EQ(got.experts[i].dropped, wanted.experts[i].dropped) << wanted.experts[i].block;
  }
}

TEST(ExpertSharesTest, SharesSumToOneAndDropsToThoseOfTheStep) {
  const std::vector<train::StepReport> reports = trained(with_experts());
  ASSERT_EQ(reports.size(), 3U);
  for (const train::StepReport& report : reports) {
    ASSERT_EQ(report.experts.size(), 2U);
    EXPECT_EQ(report.experts[0].block, "block01");
    EXPECT_EQ(report.experts[1].block, "block03");
    double dropped = 0;
    for (const train::ExpertShares& block : report.experts) {
      ASSERT_EQ(block.share.size(), 4U);
      EXPECT_NEAR(sum_of(block.share), 1, 1e-12);
      EXPECT_GE(block.imbalance(), 1);
      constexpr double kRequests = 2 * 2 * 8 * 2;  // micro-steps, sequences, tokens, choices
      for (const double share : block.share) EXPECT_EQ(share * kRequests, std::round(share * kRequests));
      dropped += sum_of(block.dropped);
    }
    EXPECT_GT(dropped, 0);
    EXPECT_EQ(dropped, report.dropped);
  }
}

TEST(ExpertSharesTest, TheyAreWhatTheReferenceEvaluatorCounts) {
  const auto wanted = ContractRun(with_experts(), reference_backend(), Fetches::experts).train();
  expect_equal(trained(with_experts()).at(0), wanted.at(0));
}

TEST(ExpertSharesTest, NoLayoutChangesThem) {
  const std::vector<train::StepReport> wanted = trained(with_experts());
  for (const char* layout : {"layout.data_parallel=2", "layout.expert_parallel=2", "layout.tensor_parallel=2",
                             "layout.context_parallel=2", "layout.pipeline_parallel=2"}) {
    SCOPED_TRACE(layout);
    expect_equal(trained(with_experts({layout})).at(0), wanted.at(0));
  }
}

TEST(ExpertSharesTest, FetchingThemChangesNoLossAndNotFetchingLeavesThemAbsent) {
  const std::vector<train::StepReport> wanted = trained(with_experts());
  const auto plain = ContractRun(with_experts(), runtime::backend_named("cpu")).train();
  ASSERT_EQ(plain.size(), wanted.size());
  for (size_t step = 0; step < plain.size(); ++step) {
    EXPECT_EQ(plain[step].loss, wanted[step].loss) << "to the bit";
    EXPECT_TRUE(plain[step].experts.empty());
  }
  EXPECT_EQ(train::most_uneven(plain[0].experts), nullptr);
  EXPECT_TRUE(trained(small_recipe()).at(0).experts.empty()) << "a model without experts";
}

TEST(ExpertSharesTest, TheMostUnevenBlockIsTheOneWithTheBusiestExpert) {
  const std::vector<train::ExpertShares> blocks = {
      {"block01", {0.25, 0.75}, {0, 0}}, {"block03", {0.9, 0.1}, {0, 0}}, {"block05", {0.5, 0.5}, {0, 0}}};
  const train::ExpertShares* const worst = train::most_uneven(blocks);
  ASSERT_NE(worst, nullptr);
  EXPECT_EQ(worst->block, "block03");
  EXPECT_DOUBLE_EQ(worst->imbalance(), 1.8);
  EXPECT_DOUBLE_EQ(blocks[2].imbalance(), 1);
}

}  // namespace
}  // namespace megacpp::testing_support
