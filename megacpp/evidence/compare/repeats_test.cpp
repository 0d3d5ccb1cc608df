// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/repeats.h"

#include <gtest/gtest.h>

#include "tests/support/seeded_receipts.h"

namespace megacpp::compare {
namespace {

TEST(RepeatsTest, OneReceiptOfEveryRunIsKeptInOrder) {
  const receipt::Receipt first = testing_support::seeded_receipt({.name = "a"});
  receipt::Receipt renamed = first, later = first, longer = first, copied = first;
  renamed.run = "b";
  later.ending.started_at = "2026-11-16T21:45:12Z";
  longer.times.samples.seconds.push_back(1);
  copied.repeats = "whatever a later version says of it";
  const std::vector<receipt::Receipt> once = each_once({first, renamed, copied, later, first, longer});
  ASSERT_EQ(once.size(), 4U);
  EXPECT_EQ(once[0].repeats, first.repeats) << "the first of those that are the same";
  EXPECT_EQ(once[1].run, "b");
  EXPECT_EQ(once[2].ending.started_at, later.ending.started_at);
  EXPECT_EQ(once[3].times.samples.seconds.size(), longer.times.samples.seconds.size());
}

}  // namespace
}  // namespace megacpp::compare
