// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/program_cache.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "megacpp/core/base/file.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using testing_support::cpu_client;
using testing_support::kAdd;
using Causes = std::map<std::string, int64_t>;

class ProgramCacheTest : public testing_support::CpuPluginTest {
 protected:
  ProgramCacheTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                (std::string("megacpp_cache_") + ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
  }

  /// What a new client counts when it gets the program through a new cache, and that the program is right.
  Counters counters_of_a_run() const {
    ProgramCache cache(folder_);
    const Client client = cpu_client(1);
    const LoadedProgram program = cache.compile(client, kAdd, {});
    EXPECT_TRUE(cache.stores()) << cache.stores().reason();
    const Buffer x = testing_support::upload(client, 0, {2, 3}, {1, 2, 3, 4, 5, 6});
    const std::vector<std::vector<const Buffer*>> arguments = {{&x, &x}};
    EXPECT_EQ(testing_support::download(program.execute(arguments).outputs[0][0]),
              (std::vector<float>{2, 4, 6, 8, 10, 12}));
    return client.counters();
  }

  std::filesystem::path entry() const { return ProgramCache(folder_).entry(cpu_client(1), kAdd, {}); }

  std::filesystem::path folder_;
};

TEST_F(ProgramCacheTest, TheSecondRunCompilesNothing) {
  const Counters first = counters_of_a_run();
  EXPECT_EQ(first.compiles, (Causes{{"not in the cache", 1}}));
  EXPECT_EQ(first.cache_hits, 0);
  const Counters second = counters_of_a_run();
  EXPECT_EQ(second.compiles, Causes{});
  EXPECT_EQ(second.cache_hits, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(ProgramCacheTest, OtherTextOptionsOrDevicesAreOtherEntries) {
  const ProgramCache cache(folder_);
  const Client client = cpu_client(1);
  const std::filesystem::path plain = cache.entry(client, kAdd, {});
  EXPECT_EQ(plain, cache.entry(cpu_client(1), kAdd, {}));
  EXPECT_NE(plain, cache.entry(client, std::string(kAdd) + " ", {}));
  EXPECT_NE(plain, cache.entry(client, kAdd, {.flags = {{"xla_cpu_enable_fast_math", false}}}));
  EXPECT_NE(plain, cache.entry(cpu_client(2), kAdd, {}));
}

TEST_F(ProgramCacheTest, ADamagedEntryIsCompiledAnewAndReplaced) {
  counters_of_a_run();
  const std::string sound = base::read_file(entry());
  std::string flipped = sound;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (const std::string& damaged : {flipped, sound.substr(0, sound.size() / 2), std::string("?"), std::string()}) {
    base::write_file_atomically(entry(), damaged);
    EXPECT_EQ(counters_of_a_run().compiles, (Causes{{"cache entry damaged", 1}}));
    EXPECT_EQ(counters_of_a_run().cache_hits, 1);
  }
}

TEST_F(ProgramCacheTest, AnEntryOfAnotherProgramIsNotUsed) {
  counters_of_a_run();
  const Client client = cpu_client(1);
  ProgramCache cache(folder_);
  const CompileOptions other{.flags = {{"xla_cpu_enable_fast_math", false}}};
  cache.compile(client, kAdd, other);
  std::filesystem::copy_file(cache.entry(client, kAdd, other), entry(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(counters_of_a_run().compiles, (Causes{{"cache entry of another program", 1}}));
  EXPECT_EQ(counters_of_a_run().cache_hits, 1);
}

TEST_F(ProgramCacheTest, AnEntryThatThePluginRefusesIsReplaced) {
  counters_of_a_run();
  const std::string payload = "whole and of this program, but nothing that runs";
  XXH128_canonical_t checksum;
  XXH128_canonicalFromHash(&checksum, XXH3_128bits(payload.data(), payload.size()));
  std::string header = "megacpp program 1\n" + entry().stem().string();
  for (const unsigned char byte : checksum.digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    header += digits;
  }
  base::write_file_atomically(entry(), header + payload);
  EXPECT_EQ(counters_of_a_run().compiles, (Causes{{"cache entry refused by the plugin", 1}}));
  EXPECT_EQ(counters_of_a_run().cache_hits, 1);
}

TEST_F(ProgramCacheTest, ManyAtOnceAllGetTheProgram) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { counters_of_a_run(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters_of_a_run().cache_hits, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(ProgramCacheTest, AFolderThatCannotBeWrittenIsRefusedBeforeCompiling) {
  base::write_file_atomically(folder_, "a file stands here");
  testing_support::problem_of(Code::E3001, [&] { ProgramCache{folder_ / "inside"}; });
  testing_support::problem_of(Code::E3001, [&] { ProgramCache{folder_}; });
  std::filesystem::remove(folder_);
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
