// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/timed_part.h"

#include <gtest/gtest.h>

#include <thread>

namespace megacpp::base {
namespace {

TEST(TimedPartTest, PartsAndTheRestMakeTheWhole) {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  PartClock clock;
  wait();
  clock.lap("data");
  wait();
  clock.add({{.name = "kernels", .seconds = 0.0005, .note = "31 cached"}});
  clock.lap("weights");
  EXPECT_EQ(clock.added().size(), 3U);
  const std::vector<TimedPart> parts = clock.all();
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[0].name, "data");
  EXPECT_GE(parts[0].seconds, 0.002);
  EXPECT_EQ(parts[1].note, "31 cached");
  EXPECT_EQ(parts[2].name, "weights");
  EXPECT_EQ(parts[3].name, "other");
  EXPECT_GE(parts[3].seconds, 0.0014) << "of the second wait";
}

TEST(TimedPartTest, AreReadAsOneLine) {
  EXPECT_EQ(to_text(std::vector<TimedPart>()), "");
  const std::vector<TimedPart> parts = {{.name = "data", .seconds = 0.08},
                                        {.name = "kernels", .seconds = 1.5, .note = "31 cached"}};
  EXPECT_EQ(to_text(parts), "1.58 s: data 0.08, kernels 1.50 (31 cached)");
}

}  // namespace
}  // namespace megacpp::base
