// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/chip_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace megacpp::runtime {
namespace {

void nobody_fails(int64_t chip, const std::string& what) { ADD_FAILURE() << "chip " << chip << ": " << what; }

TEST(ChipThreadsTest, EveryChipRunsOnceInEveryRun) {
  for (const std::vector<int64_t>& chips : {std::vector<int64_t>{0}, {0, 1}, {3, 5, 6, 7}, {4}}) {
    ChipThreads threads(chips, nobody_fails);
    std::vector<std::atomic<int>> runs(8);
    for (int round = 0; round < 50; ++round) threads.run([&](int64_t chip) { ++runs[static_cast<size_t>(chip)]; });
    for (int64_t chip = 0; chip < 8; ++chip)
      EXPECT_EQ(runs[static_cast<size_t>(chip)], std::ranges::count(chips, chip) * 50);
  }
}

TEST(ChipThreadsTest, TheFirstFailureIsThrownOnceAllHaveEnded) {
  std::atomic<bool> is_told = false;
  std::atomic<int> ended = 0;
  ChipThreads threads({0, 1, 2}, [&](int64_t, const std::string&) { is_told = true; });
  const auto body = [&](int64_t chip) {
    if (chip == 1) throw std::runtime_error("the cause");
    while (!is_told) std::this_thread::yield();  // as a chip that waits for chip 1 until the transport tells it
    ++ended;
    throw std::runtime_error("a consequence");
  };
  try {
    threads.run(body);
    FAIL() << "no failure was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the cause");
    EXPECT_EQ(ended, 2);
  }
}

TEST(ChipThreadsTest, AnUnknownErrorIsReportedToo) {
  for (const std::vector<int64_t>& chips : {std::vector<int64_t>{0, 1}, {1}}) {
    std::string heard;
    ChipThreads threads(chips,
                        [&](int64_t chip, const std::string& what) { heard = std::to_string(chip) + ": " + what; });
    EXPECT_ANY_THROW(threads.run([](int64_t chip) {
      if (chip == 1) throw 7;
    }));
    EXPECT_EQ(heard, "1: an unknown error");
  }
}

}  // namespace
}  // namespace megacpp::runtime
