// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/gates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/plan/plan.h"
#include "tests/support/errors.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using base::Code;
using recipe::Recipe;

struct RefusedLayout {
  const char* name;
  Code code;
  std::function<void(Recipe&)> spoil;
  std::string next;
};

void expect_refused(const std::vector<RefusedLayout>& gates) {
  for (const RefusedLayout& gate : gates) {
    Recipe recipe = testing_support::hybrid_recipe();
    gate.spoil(recipe);
    const base::Error error = testing_support::error_of([&recipe] { make_plan(recipe); });
    EXPECT_EQ(error.code(), gate.code) << gate.name << ": " << error.what();
    EXPECT_EQ(error.problem().next, gate.next) << gate.name << ": " << error.what();
    EXPECT_FALSE(error.problem().got.empty() || error.problem().wanted.empty()) << gate.name;
  }
}

TEST(GatesTest, DegreesMultiplyToTheChips) {
  expect_refused({
      {"chips", Code::E1401, [](Recipe& r) { r.layout.chips = 8, r.layout.tensor_parallel = 2; },
       "set layout.data_parallel: 4, or layout.chips: 2"},
      {"chips that do not divide", Code::E1401, [](Recipe& r) { r.layout.chips = 7, r.layout.tensor_parallel = 2; },
       "set layout.data_parallel: 3 and layout.chips: 6, or layout.chips: 2"},
  });
}

TEST(GatesTest, HeadsAndGroupsAreSplitWhole) {
  expect_refused({
      {"heads", Code::E1402, [](Recipe& r) { r.layout.tensor_parallel = 3; }, "set layout.tensor_parallel: 2 or 4"},
      {"heads of A alone", Code::E1402,
       [](Recipe& r) {
         r.model.pattern = "A";
         r.model.config<blocks::Attention>() = {.heads = 56, .kv_heads = 56, .head_dim = 8};
         r.layout.tensor_parallel = 6;
         r.train.sequence = 56;
       },
       "set layout.tensor_parallel: 4 or 7"},
      {"KV heads", Code::E1402,
       [](Recipe& r) {
         r.model.config<blocks::Attention>() = {.heads = 24, .kv_heads = 6, .head_dim = 8};
         r.model.pattern = "A";
         r.layout.tensor_parallel = 4;
         r.train.sequence = 48;
       },
       "set layout.tensor_parallel: 3 or 6"},
      {"groups", Code::E1402,
       [](Recipe& r) {
         r.model.pattern = "M";
         r.model.config<blocks::Mamba>().heads = 12;
         r.model.config<blocks::Mamba>().groups = 6;
         r.layout.tensor_parallel = 4;
         r.train.sequence = 48;
       },
       "set layout.tensor_parallel: 3 or 6"},
      {"recurrent heads", Code::E1402,
       [](Recipe& r) {
         r.model.pattern = "R", r.model.config<blocks::Recurrent>().heads = 2, r.layout.tensor_parallel = 4;
       },
       "set layout.tensor_parallel: 2"},
      {"no chain", Code::E1402,
       [](Recipe& r) {
         r.model.pattern = "AM";
         r.model.config<blocks::Attention>() = {.heads = 12, .kv_heads = 2, .head_dim = 8};
         r.model.config<blocks::Mamba>().heads = 12;
         r.model.config<blocks::Mamba>().groups = 3;
         r.layout.tensor_parallel = 6;
       },
       "set layout.tensor_parallel: 1"},
      {"all-to-all", Code::E1402,
       [](Recipe& r) {
         r.layout.context_attention = recipe::ContextAttention::alltoall, r.layout.tensor_parallel = 2,
         r.layout.context_parallel = 4;
       },
       "set layout.context_parallel: 2, or layout.context_attention: ring"},
  });
}

// A letter of the recipe's own is split as its settings say, whatever its family's own letter would allow.
TEST(GatesTest, EveryLetterMustSplit) {
  const auto with_letter = [](Recipe& r, const char* family, const std::string& setting, const std::string& value) {
    r.model.pattern = "AEMD";
    r.model.letters['D'] = {.family = family, .settings = {{setting, value}}};
  };
  expect_refused({
      {"heads", Code::E1402,
       [&](Recipe& r) { with_letter(r, "A", "attention.heads", "12"), r.layout.tensor_parallel = 8; },
       "set layout.tensor_parallel: 4"},
      {"experts", Code::E1403,
       [&](Recipe& r) { with_letter(r, "E", "feed_forward.experts", "6"), r.layout.expert_parallel = 4; },
       "set layout.expert_parallel: 2"},
      {"swapped KV heads", Code::E1402,
       [&](Recipe& r) {
         with_letter(r, "A", "attention.kv_heads", "2");
         r.layout.context_attention = recipe::ContextAttention::alltoall, r.layout.context_parallel = 4;
       },
       "set layout.context_parallel: 2, or layout.context_attention: ring"},
      {"history", Code::E1404,
       [&](Recipe& r) {
         with_letter(r, "M", "mamba.conv_width", "40");
         r.layout.context_parallel = 2, r.layout.load_balance = false;
       },
       "set train.sequence: 78, or layout.context_parallel: 1"},
  });
  Recipe recipe = testing_support::hybrid_recipe();
  with_letter(recipe, "A", "attention.heads", "12");
  recipe.layout.tensor_parallel = 8;
  const base::Error error = testing_support::error_of([&recipe] { make_plan(recipe); });
  EXPECT_EQ(error.problem().wanted, "a divisor of 12: model.letters.D.attention.heads");
}

TEST(GatesTest, ExpertsAreSplitWholeAndOnlyWhereThereAreSome) {
  expect_refused({
      {"no experts", Code::E1403,
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().experts = 0, r.layout.expert_parallel = 2, r.layout.data_parallel = 2;
       },
       "set layout.expert_parallel: 1 and layout.data_parallel: 4"},
      {"no expert blocks", Code::E1403, [](Recipe& r) { r.model.pattern = "A", r.layout.expert_parallel = 2; },
       "set layout.expert_parallel: 1 and layout.data_parallel: 2"},
      {"expert TP without experts", Code::E1403,
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().experts = 0, r.layout.tensor_parallel = 4,
         r.layout.expert_tensor_parallel = 2;
       },
       "set layout.expert_tensor_parallel: 0"},
      {"expert TP as TP without experts", Code::E1403,
       [](Recipe& r) { r.model.pattern = "A", r.layout.tensor_parallel = r.layout.expert_tensor_parallel = 4; },
       "set layout.expert_tensor_parallel: 0"},
      {"experts", Code::E1403, [](Recipe& r) { r.layout.expert_parallel = 3; }, "set layout.expert_parallel: 2 or 4"},
      {"more than experts", Code::E1403, [](Recipe& r) { r.layout.expert_parallel = 16; },
       "set layout.expert_parallel: 8"},
      {"expert TP", Code::E1403, [](Recipe& r) { r.layout.tensor_parallel = 4, r.layout.expert_tensor_parallel = 3; },
       "set layout.expert_tensor_parallel: 2 or 4"},
  });
}

TEST(GatesTest, SequenceAndBatchReachEveryChip) {
  expect_refused({
      {"balanced runs", Code::E1404, [](Recipe& r) { r.layout.context_parallel = 4, r.train.sequence = 60; },
       "set train.sequence: 56 or 64, or layout.context_parallel: 3, or layout.load_balance: false"},
      {"runs", Code::E1404,
       [](Recipe& r) { r.layout.context_parallel = 4, r.layout.load_balance = false, r.train.sequence = 3; },
       "set train.sequence: 12, or layout.context_parallel: 1"},
      {"runs shorter than a convolution", Code::E1404,
       [](Recipe& r) { r.layout.context_parallel = 4, r.train.sequence = 16; },
       "set train.sequence: 24, or layout.context_parallel: 2, or layout.load_balance: false"},
      {"runs without convolutions", Code::E1404,
       [](Recipe& r) {
         r.model.pattern = "AE", r.layout.context_parallel = 4, r.layout.load_balance = false, r.train.sequence = 3;
       },
       "set train.sequence: 4, or layout.context_parallel: 3"},
      {"stream", Code::E1404, [](Recipe& r) { r.layout.tensor_parallel = 4, r.train.sequence = 62; },
       "set train.sequence: 60 or 64, or layout.sequence_parallel: false, or layout.tensor_parallel: 2"},
      {"batch", Code::E1405, [](Recipe& r) { r.layout.data_parallel = 8, r.layout.expert_parallel = 4; },
       "set train.batch: 32, or layout.data_parallel: 4, or layout.expert_parallel: 2"},
      {"batch below expert", Code::E1405, [](Recipe& r) { r.layout.expert_parallel = 4, r.train.batch = 2; },
       "set train.batch: 4, or layout.expert_parallel: 2"},
  });
}

TEST(GatesTest, StagesHaveBlocksAndSchedulesTheirChunks) {
  expect_refused({
      {"stages", Code::E1406, [](Recipe& r) { r.layout.pipeline_parallel = 9; }, "set layout.pipeline_parallel: 8"},
      {"chunks", Code::E1406,
       [](Recipe& r) {
         r.layout.pipeline_parallel = 4, r.layout.virtual_stages = 3,
         r.layout.schedule = recipe::StageSchedule::interleaved;
       },
       "set layout.pipeline_parallel: 2, or layout.virtual_stages: 2"},
      {"chunks alone", Code::E1406,
       [](Recipe& r) {
         r.layout.pipeline_parallel = 2, r.layout.virtual_stages = 9,
         r.layout.schedule = recipe::StageSchedule::interleaved;
       },
       "set layout.virtual_stages: 4"},
      {"cuts", Code::E1406, [](Recipe& r) { r.model.pattern = "AE|MR|", r.layout.pipeline_parallel = 2; },
       "set layout.pipeline_parallel: 4, or model.pattern: AEMR"},
      {"cuts and chunks", Code::E1406,
       [](Recipe& r) {
         r.model.pattern = "AEM|RAEMR|", r.layout.pipeline_parallel = 2, r.layout.virtual_stages = 2;
         r.layout.schedule = recipe::StageSchedule::interleaved, r.model.depth = 9;
       },
       "set model.pattern: AEMRAEMR"},
      {"no pipeline", Code::E1407, [](Recipe& r) { r.layout.virtual_stages = 2; }, "set layout.virtual_stages: 1"},
      {"not interleaved", Code::E1407, [](Recipe& r) { r.layout.pipeline_parallel = 2, r.layout.virtual_stages = 2; },
       "set layout.schedule: interleaved, or layout.virtual_stages: 1"},
      {"nothing to interleave", Code::E1407,
       [](Recipe& r) { r.layout.pipeline_parallel = 2, r.layout.schedule = recipe::StageSchedule::interleaved; },
       "set layout.virtual_stages: 2, or layout.schedule: 1f1b"},
  });
}

TEST(GatesTest, KeysAgree) {
  expect_refused({
      {"megatron", Code::E1407, [](Recipe& r) { r.layout.policy = recipe::Policy::megatron, r.layout.zero = 3; },
       "set layout.zero: 1, or layout.policy: fsdp"},
      {"reshard", Code::E1407,
       [](Recipe& r) {
         r.layout.zero = 3, r.layout.data_parallel = 12,
         r.layout.reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::group, .chips = 5};
       },
       "set layout.reshard_after_forward: 4 or 6"},
      {"reshard over all", Code::E1407,
       [](Recipe& r) {
         r.layout.zero = 3, r.layout.data_parallel = 2,
         r.layout.reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::group, .chips = 2};
       },
       "set layout.reshard_after_forward: true"},
  });
}

TEST(GatesTest, SuggestedDegreesAreLegalAndNoneIsNearer) {
  for (const int64_t kv_heads : {1, 2, 3, 6, 12}) {
    for (const int64_t groups : {1, 2, 4, 24}) {
      Recipe recipe = testing_support::hybrid_recipe();
      recipe.model.config<blocks::Attention>() = {.heads = 12, .kv_heads = kv_heads, .head_dim = 8};
      recipe.model.config<blocks::Mamba>().heads = recipe.model.config<blocks::Recurrent>().heads = 24;
      recipe.model.config<blocks::Mamba>().groups = groups;
      recipe.train.sequence = 27720;  // divides by every degree up to 12
      std::vector<int64_t> legal;
      std::vector<std::pair<int64_t, std::string>> refused;
      for (int64_t degree = 1; degree <= 30; ++degree) {
        recipe.layout.tensor_parallel = degree;
        try {
          make_plan(recipe);
          legal.push_back(degree);
        } catch (const base::Error& error) {
          refused.emplace_back(degree, error.problem().next);
        }
      }
      for (const auto& [degree, next] : refused) {
        const auto above = std::upper_bound(legal.begin(), legal.end(), degree);
        std::string expected = "set layout.tensor_parallel: " + std::to_string(*(above - 1));
        if (above != legal.end()) expected += " or " + std::to_string(*above);
        EXPECT_EQ(next, expected) << degree << " with " << kv_heads << " KV heads and " << groups << " groups";
      }
    }
  }
}

TEST(GatesTest, WhatIsLegalPasses) {
  const std::vector<std::function<void(recipe::Layout&)>> legal = {
      [](recipe::Layout&) {},
      [](recipe::Layout& l) { l.data_parallel = 16; },
      [](recipe::Layout& l) { l.data_parallel = 3, l.chips = 3; },  // 16 sequences are padded to 18
      [](recipe::Layout& l) { l.tensor_parallel = 8; },             // 4 KV heads and 4 groups are shared
      [](recipe::Layout& l) { l.context_attention = recipe::ContextAttention::alltoall, l.context_parallel = 4; },
      [](recipe::Layout& l) {
        l.pipeline_parallel = 4, l.virtual_stages = 2, l.schedule = recipe::StageSchedule::interleaved;
      },
      [](recipe::Layout& l) {
        l.zero = 2, l.reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::group, .chips = 5};
      },  // says nothing below zero 3
  };
  for (size_t i = 0; i < legal.size(); ++i) {
    Recipe recipe = testing_support::hybrid_recipe();
    legal[i](recipe.layout);
    EXPECT_NO_THROW(make_plan(recipe)) << i;
  }
  Recipe cut = testing_support::hybrid_recipe();
  cut.model.pattern = "AE|MR";
  EXPECT_NO_THROW(make_plan(cut)) << "cuts wait for stages";
}

TEST(GatesTest, EachKindOfRefusalIsListedOnce) {
  const std::vector<base::Code> codes = gate_codes();
  EXPECT_EQ(codes.front(), base::Code::E1401);
  EXPECT_TRUE(std::is_sorted(codes.begin(), codes.end()));
  EXPECT_EQ(std::adjacent_find(codes.begin(), codes.end()), codes.end());
}

}  // namespace
}  // namespace megacpp::plan
