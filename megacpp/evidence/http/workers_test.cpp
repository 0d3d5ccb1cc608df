// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace megacpp::http {
namespace {

TEST(WorkersTest, EveryTaskHasRunAtTheEnd) {
  std::atomic<int> done = 0;
  {
    Workers workers(3);
    for (int i = 0; i < 100; ++i) workers.give([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(WorkersTest, TasksRunAtOnce) {
  std::latch all(3);  // of which each waits for the others
  Workers workers(3);
  for (int i = 0; i < 3; ++i) workers.give([&] { all.arrive_and_wait(); });
  all.wait();
}

}  // namespace
}  // namespace megacpp::http
