// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::run_command;

TEST(CeilingsCommandTest, RunsOfAFolderGiveTheirCeilings) {
  const testing_support::TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) {
    const receipt::Receipt receipt = testing_support::seeded_receipt({.name = name});
    base::make_folder(folder / name);
    base::write_file_atomically(folder / name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder / name);
  }
  const std::string runs = folder.path().string();
  const auto text = run_command({"ceilings", "--runs", runs});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("8 x 256 (3 runs)"), std::string::npos) << text.out;
  const Json json = Json::parse(run_command({"ceilings", "--runs", runs, "--times", "4", "--json"}).out);
  EXPECT_TRUE(json["ceilings"][0]["validated"].is_null());
  EXPECT_EQ(json["ceilings"][0]["single_peak"]["ran"], 3);
  const Json twice = Json::parse(run_command({"ceilings", "--runs", runs, "--runs", runs, "--json"}).out);
  EXPECT_EQ(twice["ceilings"][0]["validated"]["ran"], 3) << "each run counts once";
}

// It leaves a receipt and no run.
TEST(CeilingsCommandTest, ALaunchThatDidNotFitIsSeen) {
  const testing_support::TemporaryFolder folder;
  const auto launch = run_command(testing_support::on_recipe(
      "train", "nam52-tiny.yaml",
      {"hardware.limit=1MiB", "ladder.rungs=[]", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs/errors.md]"},
      {"--no-catalog", "--run-dir", (folder / "large").string()}));
  ASSERT_NE(launch.status, 0) << launch.err;
  const Json json = Json::parse(run_command({"ceilings", "--runs", folder.path().string(), "--json"}).out);
  ASSERT_EQ(json["ceilings"].size(), 1U) << json;
  EXPECT_EQ(json["ceilings"][0]["too_large"]["out_of_memory"], 1);
}

TEST(CeilingsCommandTest, MistakesAreNamed) {
  EXPECT_EQ(run_command({"ceilings", "probe"}).status, 2);
  EXPECT_EQ(run_command({"ceilings", "prob"}).status, 2);
  EXPECT_EQ(run_command({"ceilings", "--times", "0"}).status, 2);
  for (const char* path : {"/no/such/folder", "/dev/null"}) {
    const auto absent = run_command({"ceilings", "--runs", path});
    EXPECT_EQ(absent.status, 2);
    EXPECT_NE(absent.err.find("error E1008"), std::string::npos) << absent.err;
  }
  const testing_support::Variable process("PMI_RANK", "1"), processes("PMI_SIZE", "2");
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  const auto of_two = run_command({"ceilings", "probe", recipe, "--dir", "/no/such/folder"});
  EXPECT_NE(of_two.err.find("error E1007"), std::string::npos) << of_two.err;
}

}  // namespace
}  // namespace megacpp::cli
