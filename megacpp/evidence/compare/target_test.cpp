// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/target.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/seeded_receipts.h"

namespace megacpp::compare {
namespace {

using testing_support::seeded_receipt;

/// tensor_parallel 1 against 2, at a sequence length.
Comparison pair_at(const std::string& sequence, double before, double after) {
  const std::string shape = "train.sequence=" + sequence;
  const std::vector<std::string> overrides = {shape, "layout.tensor_parallel=2"};
  const std::vector a{seeded_receipt({.name = "a", .overrides = {shape}, .arithmetic = before})};
  const std::vector b{seeded_receipt({.name = "b", .overrides = overrides, .arithmetic = after})};
  return compare(a, b);
}

TEST(TargetTest, AGainSurvivesIsLostOrTurnsRound) {
  const Comparison gain = pair_at("64", 0.08, 0.05);
  EXPECT_EQ(on_target(gain, pair_at("256", 0.16, 0.10)).survival, Survival::survived);
  EXPECT_EQ(on_target(gain, pair_at("256", 0.16, 0.16)).survival, Survival::lost);
  EXPECT_EQ(on_target(gain, pair_at("256", 0.16, 0.24)).survival, Survival::reversed);
  EXPECT_EQ(on_target(pair_at("256", 0.08, 0.08), gain).survival, Survival::no_gain);
  EXPECT_EQ(on_target(gain, pair_at("256", 0.16, 0.10)).sentence.rfind("survived: -", 0), 0U);
}

TEST(TargetTest, TheSameShapeIsNoTarget) {
  const Comparison gain = pair_at("64", 0.08, 0.05);
  try {
    on_target(gain, gain);
    FAIL() << "the gain was measured there";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1007);
    EXPECT_NE(error.problem().got.find(" x 64 tokens"), std::string::npos) << error.problem().got;
  }
}

TEST(TargetTest, AnotherChangeOnTheTargetIsRefused) {
  const Comparison gain = pair_at("64", 0.08, 0.05);
  const std::vector a{seeded_receipt({.name = "a"})};
  const std::vector b{seeded_receipt({.name = "b", .overrides = {"train.batch=4"}})};
  EXPECT_THROW(on_target(gain, compare(a, b)), base::Error);
}

}  // namespace
}  // namespace megacpp::compare
