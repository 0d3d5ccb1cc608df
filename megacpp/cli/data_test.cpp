// SPDX-License-Identifier: Apache-2.0
// `megacpp data` as a user types it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "tests/support/command_line.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::has;

class DataCommandTest : public testing::Test {
 protected:
  DataCommandTest() { base::write_file_atomically(text_, "one two one two one two"); }

  testing_support::TemporaryFolder folder_;
  std::string text_ = (folder_ / "text.txt").string();
};

TEST_F(DataCommandTest, TokenizesIntoANewDatasetOnly) {
  const std::string out = (folder_ / "set").string();
  const std::vector<std::string> words = {"data", "tokenize", text_, "--out", out, "--json"};
  const CommandResult made = testing_support::run_command(words);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(Json::parse(made.out).at("tokens"), 23);
  const std::string tokens = base::read_file(out + ".bin");
  EXPECT_TRUE(has(testing_support::run_command(words).err, "set.idx is there already"));
  std::filesystem::remove(out + ".idx");
  const CommandResult again = testing_support::run_command(words);
  EXPECT_EQ(again.status, 2) << again.err;
  EXPECT_TRUE(has(again.err, "set.bin is there already")) << again.err;
  EXPECT_EQ(base::read_file(out + ".bin"), tokens);
}

TEST_F(DataCommandTest, ZeroThreadsAreAllCoresForBothOfItsWords) {
  const std::string out = (folder_ / "tokenizer.json").string();
  const auto train_tokenizer = [&](const char* threads) {
    return testing_support::run_command(
        {"data", "train-tokenizer", text_, "--vocab", "259", "--threads", threads, "--out", out});
  };
  std::string first;
  for (const char* threads : {"0", "1", "3"}) {
    std::filesystem::remove(out);
    const CommandResult trained = train_tokenizer(threads);
    ASSERT_EQ(trained.status, 0) << trained.err;
    if (first.empty()) first = base::read_file(out);
    EXPECT_EQ(base::read_file(out), first) << threads;
  }
  base::write_file_atomically(out, "another tokenizer");
  const CommandResult refused = train_tokenizer("1");
  EXPECT_TRUE(has(refused.err, "error E1007")) << refused.err;
  EXPECT_TRUE(has(refused.err, "tokenizer.json is there already")) << refused.err;
  EXPECT_EQ(base::read_file(out), "another tokenizer");
  std::filesystem::remove(out);
  ASSERT_EQ(train_tokenizer("1").status, 0);
  const CommandResult made = testing_support::run_command(
      {"data", "tokenize", text_, "--threads", "0", "--tokenizer", out, "--out", (folder_ / "set").string()});
  EXPECT_EQ(made.status, 0) << made.err;
}

}  // namespace
}  // namespace megacpp::cli
