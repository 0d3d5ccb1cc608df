// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "megacpp/core/base/file.h"

namespace megacpp::runtime::cuda {
namespace {

class AlgorithmCacheTest : public ::testing::Test {
 protected:
  AlgorithmCacheTest()
      : folder_(
            std::filesystem::path(::testing::TempDir()) /
            (std::string("megacpp_algorithms_") + ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
  }

  static LtProblem problem() { return {.d = {.rows = 128, .columns = 64, .leading = 128}}; }
  static AlgorithmSetting setting() {
    return {.card = "NVIDIA H200", .multiprocessors = 132, .driver = "13.0", .library = "13.1.0"};
  }
  static KeptAlgorithm algorithm() {
    return {.algorithm = {{1, 2, 3, 0xFEDCBA9876543210U, 5, 6, 7, ~uint64_t{0}}}, .seconds = 0.25, .searched = 32};
  }
  std::string key() const { return algorithm_key(setting(), problem()); }
  AlgorithmCache cache() const { return AlgorithmCache(folder_); }

  std::filesystem::path folder_;
};

TEST_F(AlgorithmCacheTest, WhatIsKeptIsFoundAgain) {
  EXPECT_EQ(cache().find(key()).cause, "none is kept");
  ASSERT_TRUE(cache().keep(key(), algorithm()));
  const CacheAnswer answer = cache().find(key());
  ASSERT_TRUE(answer.kept) << answer.cause;
  EXPECT_EQ(answer.kept->algorithm.data, algorithm().algorithm.data);
  EXPECT_EQ(answer.kept->seconds, 0.25);
  EXPECT_EQ(answer.kept->searched, 32);
}

TEST_F(AlgorithmCacheTest, AnotherCardDriverLibraryOrProblemIsAnotherEntry) {
  ASSERT_TRUE(cache().keep(key(), algorithm()));
  std::vector<AlgorithmSetting> settings(4, setting());
  settings[0].card = "NVIDIA H100";
  settings[1].multiprocessors = 114;
  settings[2].driver = "13.1";
  settings[3].library = "13.1.1";
  for (const AlgorithmSetting& other : settings)
    EXPECT_FALSE(cache().find(algorithm_key(other, problem())).kept) << algorithm_key(other, problem());
  LtProblem added = problem();
  added.accumulates = true;
  EXPECT_FALSE(cache().find(algorithm_key(setting(), added)).kept);
}

TEST_F(AlgorithmCacheTest, DamagedFilesAreAsGoodAsAbsentAndReplaced) {
  ASSERT_TRUE(cache().keep(key(), algorithm()));
  const std::filesystem::path file = cache().file_of(key());
  const std::string whole = base::read_file(file);
  std::string other_key = whole, short_algorithm = whole, no_digits = whole;
  other_key.replace(other_key.find("H200"), 4, "H100");
  short_algorithm.erase(short_algorithm.find("fedcba98"), 8);
  no_digits.replace(no_digits.find("fedcba98"), 8, "zedcba98");
  for (const std::string& text :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[1]"), other_key, short_algorithm, no_digits}) {
    base::write_file_atomically(file, text);
    const CacheAnswer answer = cache().find(key());
    EXPECT_FALSE(answer.kept) << text;
    EXPECT_NE(answer.cause, "none is kept");
    EXPECT_FALSE(answer.cause.empty());
  }
  ASSERT_TRUE(cache().keep(key(), algorithm()));
  EXPECT_TRUE(cache().find(key()).kept);
}

TEST_F(AlgorithmCacheTest, NothingIsKeptWhereNothingCanBeWritten) {
  EXPECT_FALSE(AlgorithmCache("").keep(key(), algorithm()));
  EXPECT_EQ(AlgorithmCache("").find(key()).cause, "there is no folder to keep any in");
  std::ofstream(folder_) << "a file";
  EXPECT_FALSE(cache().keep(key(), algorithm()));
  EXPECT_FALSE(cache().find(key()).kept);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
