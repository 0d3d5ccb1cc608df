// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/clean_receipt.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::cli {
namespace {

using testing_support::has;
using testing_support::run_command;

class ReportCommandTest : public testing::Test {
 protected:
  std::string run(const testing_support::SeededRun& seeded) {
    const receipt::Receipt receipt = testing_support::seeded_receipt(seeded);
    base::make_folder(folder_ / seeded.name);
    base::write_file_atomically(folder_ / seeded.name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder_ / seeded.name);
    std::string log;
    for (const train::StepReport& report : testing_support::steady_reports(20)) log += train::line_of(report);
    base::write_file_atomically(folder_ / seeded.name / "log.jsonl", log);
    return (folder_ / seeded.name).string();
  }

  const testing_support::TemporaryFolder folder_;
  const std::string out_ = (folder_ / "page.html").string();
};

TEST_F(ReportCommandTest, WritesOnePageAndPrintsWhereItIs) {
  const auto result = run_command({"report", run({.name = "a"}), "--out", out_});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, out_ + "\n");
  EXPECT_EQ(result.err, "");
  const std::string page = base::read_file(out_);
  EXPECT_EQ(testing_support::unbalanced_tag(page), "");
  EXPECT_EQ(testing_support::outside_load(page), "");
  EXPECT_TRUE(has(page, "<title>a</title>") && has(page, "<polyline"));
}

TEST_F(ReportCommandTest, ConfoundedRunsAreAPageWithoutAWinner) {
  const std::string before = run({.name = "a"}),
                    after = run({.name = "b", .overrides = {"layout.tensor_parallel=2", "train.batch=4"}});
  const auto result = run_command({"report", before, after, "--out", out_, "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["page"], out_);
  EXPECT_EQ(json["runs"][1]["name"], "b");
  EXPECT_EQ(json["runs"][1]["ending"], "finished");
  EXPECT_EQ(json["runs"][0]["logged_steps"], 20);
  EXPECT_EQ(json["comparisons"][0]["differences"]["axes"].size(), 2U);
  EXPECT_TRUE(json["comparisons"][0]["effect"].is_null());
  EXPECT_TRUE(has(base::read_file(out_), "Confounded: no winner"));
}

TEST_F(ReportCommandTest, WithoutRunsItSaysWhereToLookForThem) {
  const testing_support::Variable runs("MEGACPP_RUNS", (folder_ / "none").string());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"report", "latest", "--out", out_}, {"receipt", "show", "latest"}}) {
    const auto result = run_command(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_TRUE(has(result.err, "error E1206") && has(result.err, "got:    no runs here\n")) << result.err;
    EXPECT_TRUE(has(result.err, "set MEGACPP_RUNS to the folder that has your runs")) << result.err;
  }
}

TEST_F(ReportCommandTest, WhatCannotBeReadIsNamedAndTheRestWritten) {
  const std::string good = run({.name = "a"}), cut = run({.name = "cut"});
  base::write_file_atomically(cut + "/receipt.json", "{");
  const auto result = run_command({"report", good, cut, (folder_ / "none").string(), "--out", out_});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"skipped   ", "cut/receipt.json", "E1801", "none", "E1803"})
    EXPECT_TRUE(has(result.err, part)) << part << "\n" << result.err;
  EXPECT_TRUE(has(base::read_file(out_), "E1801"));
  const Json json = Json::parse(run_command({"report", good, cut, "--out", out_, "--json"}).out);
  EXPECT_EQ(json["runs"][1]["problems"].size(), 1U);
  EXPECT_TRUE(json["runs"][1]["verdict"].is_null());
}

TEST_F(ReportCommandTest, NothingToShowIsAnErrorAndNoPage) {
  const auto none = run_command({"report", (folder_ / "none").string(), "--out", out_});
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(has(none.err, "error E1803")) << none.err;
  EXPECT_FALSE(base::exists(out_));
  EXPECT_TRUE(has(run_command({"report", ""}).err, "error E1008"));
  EXPECT_EQ(run_command({"report"}).status, 2);
}

TEST_F(ReportCommandTest, APageThatCannotBeWrittenIsSaidBeforeAnythingIsRead) {
  const std::string good = run({.name = "a"});
  const auto refused = run_command({"report", good, "--out", (folder_ / "no" / "such" / "page.html").string()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "error E3001")) << refused.err;
  EXPECT_TRUE(has(run_command({"report", good, "--out", ""}).err, "error E3001"));
  EXPECT_TRUE(has(run_command({"report", good, "--ot", "x"}).err, "did you mean '--out'?"));
}

}  // namespace
}  // namespace megacpp::cli
