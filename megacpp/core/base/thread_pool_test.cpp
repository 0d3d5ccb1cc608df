// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

TEST(ThreadPoolTest, EveryWorkerRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(threads));
      pool.run([&](int worker) { calls[static_cast<size_t>(worker)]++; });
      for (const auto& count : calls) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, RangesCoverEachIndexOnceAndStartAtGrains) {
  ThreadPool pool(3);
  for (int64_t count : {0, 1, 5, 64, 1000, 1001}) {
    for (int64_t grain : {1, 7, 64}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
        EXPECT_EQ(begin % grain, 0);
        for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
      });
      for (int hit : hits) ASSERT_EQ(hit, 1) << count << " by " << grain;
    }
  }
}

TEST(ThreadPoolTest, EachItemIsHandedOutOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> hits(100);
  pool.for_each(100, [&](int64_t item, int) { hits[static_cast<size_t>(item)]++; });
  for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
}

// Ends the process; 0 when a pool that finds no room for its stacks is refused with E3002.
[[noreturn]] void start_threads_without_room() {
  constexpr rlim_t kRoom = 256 << 20;  // address space; more than the process holds, less than 1024 stacks
  const rlimit limit = {kRoom, kRoom};
  setrlimit(RLIMIT_AS, &limit);
  try {
    ThreadPool pool(1024);
  } catch (const Error& error) {
    std::_Exit(error.code() == Code::E3002 && !error.problem().next.empty() ? 0 : 2);
  }
  std::_Exit(1);
}

TEST(ThreadPoolTest, ThreadsThatCannotBeStartedAreAnErrorAndNotTheEnd) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  EXPECT_EXIT(start_threads_without_room(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace megacpp::base
