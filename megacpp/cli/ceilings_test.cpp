// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/base/file.h"
#include "megacpp/cli/json.h"
#include "megacpp/receipt/store.h"
#include "tests/support/command_line.h"
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
}

TEST(CeilingsCommandTest, MistakesAreNamed) {
  EXPECT_EQ(run_command({"ceilings", "probe"}).status, 2);
  EXPECT_EQ(run_command({"ceilings", "prob"}).status, 2);
  EXPECT_EQ(run_command({"ceilings", "--times", "0"}).status, 2);
}

}  // namespace
}  // namespace megacpp::cli
