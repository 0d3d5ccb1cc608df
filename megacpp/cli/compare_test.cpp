// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "tests/support/command_line.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::run_command;
using testing_support::SeededRun;

class CompareTest : public testing::Test {
 protected:
  /// The folder of a run that left this receipt.
  std::string run(const SeededRun& seeded) {
    const receipt::Receipt receipt = testing_support::seeded_receipt(seeded);
    base::make_folder(folder_ / seeded.name);
    base::write_file_atomically(folder_ / seeded.name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder_ / seeded.name);
    return (folder_ / seeded.name).string();
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(CompareTest, OneAxisIsAResultWithItsIntervalTestAndCause) {
  const std::string before = run({.name = "a"});
  const std::string after = run({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.05});
  const auto text = run_command({"compare", before, after});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part : {"layout.tensor_parallel: 1 -> 2 (topology)", "% less time a token than a", "95 % confidence",
                           "test      Student's t", "cause     arithmetic"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const Json json = Json::parse(run_command({"compare", before, after, "--json"}).out);
  EXPECT_EQ(json["effect"]["finding"], "lower");
  EXPECT_LT(json["effect"]["high"].get<double>(), 1);
  EXPECT_EQ(json["time"]["cause"], "arithmetic");
}

TEST_F(CompareTest, ConfoundedRunsEndWithStatusFourAndTheList) {
  const std::string before = run({.name = "a"});
  const std::string after = run({.name = "b", .overrides = {"layout.tensor_parallel=2", "train.batch=4"}});
  const auto text = run_command({"compare", before, after});
  EXPECT_EQ(text.status, 4);
  EXPECT_NE(text.out.find("confounded: no winner"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("error E4001"), std::string::npos) << text.err;
  const auto json = run_command({"compare", before, after, "--json"});
  EXPECT_EQ(json.status, 4);
  EXPECT_EQ(Json::parse(json.out)["differences"]["axes"].size(), 2U);
  EXPECT_TRUE(Json::parse(json.out)["effect"].is_null());
}

TEST_F(CompareTest, KeysThatHaveNoPartInItAreListedAllTheSame) {
  const std::string before = run({.name = "a"}), after = run({.name = "b", .overrides = {"train.seed=7"}});
  const auto text = run_command({"compare", before, after});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("ignored   train.seed: 1234 -> 7"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("no field of the headers differs"), std::string::npos) << text.out;
}

TEST_F(CompareTest, RunsThatAreTooShortEndWithStatusFourAndTheStepsTheyNeed) {
  const std::string before = run({.name = "a", .steps = 20}),
                    after = run({.name = "b", .overrides = {"train.batch=4"}, .steps = 20});
  const auto text = run_command({"compare", before, after});
  EXPECT_EQ(text.status, 4);
  EXPECT_NE(text.out.find("result    too short to say"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("train.steps="), std::string::npos) << text.err;
}

TEST_F(CompareTest, ATargetSaysWhetherAGainSurvived) {
  const std::string small = run({.name = "a"}),
                    small_gain = run({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.05});
  const std::string large = run({.name = "c", .overrides = {"train.sequence=512"}, .arithmetic = 0.2});
  const std::string large_gain =
      run({.name = "d", .overrides = {"train.sequence=512", "layout.tensor_parallel=2"}, .arithmetic = 0.1});
  const auto text = run_command({"compare", small, small_gain, "--target", large, large_gain});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("target    survived"), std::string::npos) << text.out;
  const auto json = run_command({"compare", small, small_gain, "--json", "--target", large, large_gain});
  EXPECT_EQ(Json::parse(json.out)["target"]["survival"], "survived");
  EXPECT_EQ(run_command({"compare", small, small_gain, "--target", large}).status, 2) << "one run is no target";
  const auto repeated = run_command({"compare", small, small_gain, "--target", large, large_gain,
                                     run({.name = "e", .overrides = {"train.sequence=512"}, .arithmetic = 0.2})});
  EXPECT_EQ(repeated.status, 0) << repeated.err;
}

TEST_F(CompareTest, WhatCannotBeReadIsNamed) {
  const std::string good = run({.name = "a"});
  EXPECT_EQ(run_command({"compare", good, (folder_ / "none").string()}).status, 2);
  EXPECT_EQ(run_command({"compare", good}).status, 2);
  EXPECT_EQ(run_command({"compare"}).status, 2);
  run({.name = "b", .overrides = {"train.batch=4"}});
  const std::string cut = run({.name = "cut"});
  base::write_file_atomically(cut + "/receipt.json", "{");
  const auto folder = run_command({"compare", folder_.path().string()});
  EXPECT_EQ(folder.status, 0) << folder.err;
  EXPECT_NE(folder.err.find("skipped   " + cut), std::string::npos) << folder.err;
}

}  // namespace
}  // namespace megacpp::cli
