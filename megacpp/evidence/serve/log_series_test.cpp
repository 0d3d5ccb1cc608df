// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/log_series.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "megacpp/core/base/file.h"
#include "tests/support/served_runs.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::serve {
namespace {

using testing_support::log_lines;

class LogSeriesTest : public testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(file_, std::ios::app | std::ios::binary) << text; }

  const testing_support::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "log.jsonl";
  LogSeries series_;
};

TEST_F(LogSeriesTest, GrowsWithItsFile) {
  series_.follow(file_);
  EXPECT_TRUE(series_.points().empty()) << "no file yet";
  const std::string lines = log_lines(0, 5);
  append(lines.substr(0, lines.size() - 10));
  series_.follow(file_);
  EXPECT_EQ(series_.points().size(), 4U) << "the last line is not whole";
  append(lines.substr(lines.size() - 10) + "{\"step\": 1, \"los\n\nno line\n" + log_lines(5, 7));
  series_.follow(file_);
  ASSERT_EQ(series_.points().size(), 7U);
  EXPECT_EQ(series_.points()[6].step, 6);
  EXPECT_NEAR(*series_.points()[6].loss, 5.44, 1e-9);
  EXPECT_NEAR(*series_.points()[5].tokens_per_second, 204'800, 1);
  series_.follow(file_);
  EXPECT_EQ(series_.points().size(), 7U) << "nothing twice";
}

TEST_F(LogSeriesTest, ALogThatWasReplacedOrIsGoneStartsAgain) {
  append(log_lines(0, 9));
  series_.follow(file_);
  base::write_file_atomically(file_, log_lines(0, 3));
  series_.follow(file_);
  EXPECT_EQ(series_.points().size(), 3U);
  std::filesystem::remove(file_);
  series_.follow(file_);
  EXPECT_TRUE(series_.points().empty());
}

TEST_F(LogSeriesTest, LinksAndPipesAreNotRead) {
  base::write_file_atomically(folder_ / "elsewhere", log_lines(0, 3));
  std::filesystem::create_symlink("elsewhere", file_);
  series_.follow(file_);
  EXPECT_TRUE(series_.points().empty());
  EXPECT_FALSE(last_report(file_));
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  series_.follow(file_);
  EXPECT_TRUE(series_.points().empty());
  EXPECT_FALSE(last_report(file_));
}

TEST_F(LogSeriesTest, TheLastSoundLineIsFoundFromTheEnd) {
  EXPECT_FALSE(last_report(file_));
  append(log_lines(0, 4) + "{\"step\": 4, \"lo\nrubbish\n{\"step\": 5");
  ASSERT_TRUE(last_report(file_));
  EXPECT_EQ(last_report(file_)->step, 3);
  base::write_file_atomically(file_, "\n\n");
  EXPECT_FALSE(last_report(file_));
}

TEST_F(LogSeriesTest, ALongLogIsThinned) {
  std::string lines;
  for (int64_t step = 0; step < 6'000; ++step)
    lines += "{\"step\": " + std::to_string(step) + ", \"loss\": 1, \"seconds\": 1, \"tokens\": 8}\n";
  append(lines);
  series_.follow(file_);
  EXPECT_LE(series_.points().size(), kMostPoints);
  EXPECT_GE(series_.points().size(), kMostPoints / 2);
  EXPECT_EQ(series_.points().front().step, 0);
  EXPECT_EQ(series_.points().back().step, 5'999);
}

}  // namespace
}  // namespace megacpp::serve
