// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/next_for_kind.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

TEST(NextForKindTest, ASizeWithAnUnclearUnitHasOneThatIsMeantOthersHaveTheirDocumentation) {
  const KeySpec size{"hardware.limit", Kind::bytes, any(), "Memory of a chip."};
  EXPECT_EQ(next_for_kind(size, "much"), "hardware.limit: Memory of a chip.");
  EXPECT_EQ(next_for_kind(size, "16G"), "did you mean '16GiB'?");
  const KeySpec count{"train.batch", Kind::integer, any(), "Sequences."};
  EXPECT_EQ(next_for_kind(count, "16G"), "train.batch: Sequences.");
}

TEST(NextForKindTest, TruthsInOtherWordsAreKnown) {
  const KeySpec flag{"model.attention.qk_norm", Kind::flag, any(), "Norms."};
  for (const char* text : {"True", "TRUE", "yes", "On", "1"})
    EXPECT_EQ(next_for_kind(flag, text), "did you mean true?") << text;
  for (const char* text : {"False", "no", "OFF", "0"})
    EXPECT_EQ(next_for_kind(flag, text), "did you mean false?") << text;
  EXPECT_EQ(next_for_kind(flag, "maybe"), "model.attention.qk_norm: Norms.");
}

}  // namespace
}  // namespace megacpp::schema
