// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/given_model.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::recipe {
namespace {

using testing_support::has;
using testing_support::problem_of;

constexpr const char* kModel = R"(model:
  pattern: AE
  depth: 4
  hidden: 32
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 8}
  feed_forward: {intermediate: 64}
train: {batch: 1, sequence: 8, steps: 1}
)";

class GivenModelTest : public testing::Test {
 protected:
  Recipe around(const std::string& yaml, const std::vector<std::string>& overrides = {}) const {
    base::write_file_atomically(folder_ / "mine.yaml", yaml);
    return load_around(given_, folder_ / "mine.yaml", overrides);
  }

  const testing_support::TemporaryFolder folder_;
  const GivenModel given_{.model = parse(kModel, "given.yaml").model, .source = "there/config.json"};
};

constexpr const char* kRest = "train: {batch: 2, sequence: 16, steps: 3}\n";

TEST_F(GivenModelTest, TheRecipeNeedNotSayWhatTheModelIs) {
  const Recipe recipe = around(kRest);
  EXPECT_EQ(recipe.name, "mine");
  EXPECT_EQ(recipe.train.steps, 3);
  EXPECT_EQ(recipe.model.hidden, 32);
  EXPECT_EQ(recipe.model.config<blocks::Attention>().kv_heads, 2);
}

TEST_F(GivenModelTest, WhatItSaysMustBeTheSame) {
  EXPECT_EQ(around(std::string(kRest) + "model: {hidden: 32, attention: {heads: 4}}\n").model.hidden, 32);
  const base::Problem line =
      problem_of(base::Code::E1205, [&] { around(std::string(kRest) + "model: {hidden: 48}\n"); });
  EXPECT_TRUE(has(line.where, "model.hidden")) << line.where;
  EXPECT_TRUE(has(line.where, "mine.yaml:2")) << line.where;
  EXPECT_EQ(line.got, "48");
  EXPECT_EQ(line.wanted, "32, as in there/config.json");
  // Before the values are compared with each other: 3 KV heads do not divide 4 heads.
  const base::Problem set = problem_of(base::Code::E1205, [&] { around(kRest, {"model.attention.kv_heads=3"}); });
  EXPECT_TRUE(has(set.where, "model.attention.kv_heads")) << set.where;
}

TEST_F(GivenModelTest, BlocksMayBeWrittenOtherwiseAndCutIntoStages) {
  EXPECT_EQ(around(kRest, {"model.pattern=AEAE"}).model.depth, 4);
  EXPECT_EQ(around(kRest, {"model.pattern=AE|AE"}).model.pattern, "AE|AE");
  EXPECT_EQ(problem_of(base::Code::E1205, [&] { around(kRest, {"model.pattern=EA"}); }).got, "EA");
  EXPECT_EQ(problem_of(base::Code::E1205, [&] { around(kRest, {"model.depth=6"}); }).wanted,
            "4, as in there/config.json");
}

TEST_F(GivenModelTest, WhatOnlyTrainingReadsIsTheRecipes) {
  const Recipe recipe = around(kRest, {"model.z_loss=0.001", "model.attention.document_mask=true"});
  EXPECT_EQ(recipe.model.z_loss, 0.001);
  EXPECT_TRUE(recipe.model.config<blocks::Attention>().document_mask);
  // No block reads it.
  EXPECT_NO_THROW(around(kRest, {"model.recurrent.conv_width=3"}));
}

TEST_F(GivenModelTest, LettersOfARunAreComparedByTheirSettings) {
  const Recipe run = parse(std::string(kModel), "run.yaml",
                           std::vector<std::string>{"model.pattern=AD", "model.letters.D.family=E",
                                                    "model.letters.D.feed_forward.intermediate=96"});
  const GivenModel given{.model = run.model, .source = "run/recipe.yaml"};
  base::write_file_atomically(folder_ / "mine.yaml", kRest);
  const auto with = [&](const std::string& value) {
    return load_around(given, folder_ / "mine.yaml",
                       std::vector<std::string>{"model.letters.D.feed_forward.intermediate=" + value});
  };
  EXPECT_NO_THROW(with("96"));
  EXPECT_EQ(problem_of(base::Code::E1205, [&] { with("64"); }).wanted, "96, as in run/recipe.yaml");
}

TEST(FreeKeysTest, EveryOneIsAKey) {
  int64_t free = 0;
  for (const Key& key : keys()) free += logits_depend_on(key.path) ? 0 : 1;
  EXPECT_EQ(free, 12);
}

}  // namespace
}  // namespace megacpp::recipe
