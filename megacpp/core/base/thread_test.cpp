// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

TEST(ThreadTest, RunsItsBody) {
  bool has_run = false;
  start_thread("a test", [&has_run] { has_run = true; }).join();
  EXPECT_TRUE(has_run);
}

// Ends the process; 0 where a thread that has no room for its stack is refused with E3002, which says what it is for.
[[noreturn]] void start_threads_without_memory() {
  constexpr rlim_t kRoom = 256 << 20;  // address space; more than the process holds, less than 1024 stacks
  const rlimit limit = {kRoom, kRoom};
  ::setrlimit(RLIMIT_AS, &limit);
  try {
    for (int i = 0; i < 1024; ++i) start_thread("a test", [] { ::pause(); }).detach();
  } catch (const Error& error) {
    const bool is_named = error.code() == Code::E3002 && error.problem().where == "thread for a test";
    std::_Exit(is_named ? 0 : 2);
  }
  std::_Exit(1);
}

TEST(ThreadTest, OneThatTheSystemDoesNotStartIsAnErrorWithItsPurpose) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  EXPECT_EXIT(start_threads_without_memory(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace megacpp::base
