// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/lora.h"

#include <gtest/gtest.h>

#include <set>

namespace megacpp::blocks {
namespace {

const Parameter kQueries{.name = "block03.A.wq",
                         .shape = {64, 32},
                         .dims = {Dim::whole, Dim::heads},
                         .init = {},
                         .letter = 'A',
                         .frozen = true};
const Parameter kDown{.name = "block04.E.w_down",
                      .shape = {4, 48, 64},
                      .dims = {Dim::experts, Dim::expert_mlp, Dim::whole},
                      .init = {},
                      .letter = 'E',
                      .frozen = true};
const Parameter kNorm{.name = "block03.A.q_norm",
                      .shape = {8},
                      .dims = {Dim::whole},
                      .init = {},
                      .kind = ParameterKind::norm,
                      .letter = 'A',
                      .frozen = true};
const Parameter kHead{.name = "head.weight",
                      .shape = {64, 256},
                      .dims = {Dim::whole, Dim::vocab},
                      .init = {},
                      .kind = ParameterKind::head,
                      .frozen = true};

TEST(LoraTest, MatricesOfBlocksThatATargetNamesHaveAdapters) {
  struct Case {
    std::vector<std::string> targets;
    bool queries, down;
  };
  for (const Case& each :
       {Case{{"block*"}, true, true}, Case{{"*"}, true, true}, Case{{"block03.A.wq"}, true, false},
        Case{{"block*.A.w*"}, true, false}, Case{{"block*.w_up", "block*.w_down"}, false, true}, Case{{}, false, false},
        Case{{"wq"}, false, false}, Case{{"block*.A.wq.lora_A"}, false, false}}) {
    const Lora lora{.rank = 2, .targets = each.targets};
    const std::string name = each.targets.empty() ? "none" : each.targets[0];
    EXPECT_EQ(has_adapters(lora, kQueries), each.queries) << name;
    EXPECT_EQ(has_adapters(lora, kDown), each.down) << name;
    EXPECT_FALSE(has_adapters(lora, kNorm)) << name;
    EXPECT_FALSE(has_adapters(lora, kHead)) << name;
  }
  EXPECT_FALSE(has_adapters({.targets = {"*"}}, kQueries)) << "rank 0";
}

TEST(LoraTest, ATargetOfNoMatrixIsFound) {
  const std::vector<Parameter> parameters = {kQueries, kDown, kNorm, kHead, adapters_of({.rank = 2}, kQueries)[0]};
  const auto unmatched = [&](std::vector<std::string> targets) {
    return unmatched_target({.rank = 2, .targets = std::move(targets)}, parameters);
  };
  EXPECT_EQ(unmatched({"block*", "*.w_down"}), std::nullopt);
  EXPECT_EQ(unmatched({"block*", "*.wz"}), "*.wz");
  EXPECT_EQ(unmatched({"head.weight"}), "head.weight");
  EXPECT_EQ(unmatched({"*.q_norm"}), "*.q_norm");
  EXPECT_EQ(unmatched({"*.lora_A"}), "*.lora_A") << "adapters have none of their own";
}

TEST(LoraTest, AdaptersAreSplitAsTheirMatrixIsOnTheirSide) {
  const Lora lora{.rank = 3, .alpha = 12};
  EXPECT_EQ(lora.scale(), 4);
  const std::vector<Parameter> queries = adapters_of(lora, kQueries), down = adapters_of(lora, kDown);
  EXPECT_EQ(queries[0].name, "block03.A.wq.lora_A");
  EXPECT_EQ(queries[0].shape, (ir::Shape{64, 3}));
  EXPECT_EQ(queries[0].dims, (std::vector{Dim::whole, Dim::whole}));
  EXPECT_EQ(queries[1].name, "block03.A.wq.lora_B");
  EXPECT_EQ(queries[1].shape, (ir::Shape{3, 32}));
  EXPECT_EQ(queries[1].dims, (std::vector{Dim::whole, Dim::heads}));
  EXPECT_EQ(down[0].shape, (ir::Shape{4, 48, 3}));
  EXPECT_EQ(down[0].dims, (std::vector{Dim::experts, Dim::expert_mlp, Dim::whole}));
  EXPECT_EQ(down[1].shape, (ir::Shape{4, 3, 64}));
  EXPECT_EQ(down[1].dims, (std::vector{Dim::experts, Dim::whole, Dim::whole}));
  for (const Parameter& adapter : {queries[0], queries[1], down[0], down[1]}) {
    EXPECT_TRUE(adapter.trainable && !adapter.frozen && is_adapter(adapter.name)) << adapter.name;
    EXPECT_EQ(adapter.letter, adapter.name[8]);
  }
  std::vector<float> values(12, 1.0f);
  initialise(queries[1], 1, 0, values);
  EXPECT_EQ(std::set<float>(values.begin(), values.end()), std::set<float>{0.0f}) << "B starts at zero";
  initialise(queries[0], 1, 0, values);
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 12u) << "A does not";
}

}  // namespace
}  // namespace megacpp::blocks
