// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/ceilings.h"

#include <gtest/gtest.h>

#include "tests/support/seeded_receipts.h"

namespace megacpp::compare {
namespace {

receipt::Receipt at_batch(const std::string& batch, receipt::EndingKind ending = receipt::EndingKind::finished) {
  receipt::Receipt receipt = testing_support::seeded_receipt({.name = "a", .overrides = {"train.batch=" + batch}});
  receipt.ending.kind = ending;
  return receipt;
}

TEST(CeilingsTest, AShapeThatRanOftenStandsApartFromOneThatRanOnce) {
  const std::vector<receipt::Receipt> receipts = {at_batch("4"), at_batch("4"),
                                                  at_batch("4"), at_batch("2"),
                                                  at_batch("8"), at_batch("16", receipt::EndingKind::out_of_memory)};
  const std::vector<Ceiling> ceilings = ceilings_of(receipts);
  ASSERT_EQ(ceilings.size(), 1U);
  ASSERT_TRUE(ceilings[0].validated && ceilings[0].single_peak && ceilings[0].too_large);
  EXPECT_EQ(ceilings[0].validated->batch, 4);
  EXPECT_EQ(ceilings[0].validated->ran, 3U);
  EXPECT_EQ(ceilings[0].single_peak->batch, 8);
  EXPECT_EQ(ceilings[0].too_large->batch, 16);
  EXPECT_EQ(ceilings_of(receipts, 1)[0].validated->batch, 8);
  EXPECT_FALSE(ceilings_of(receipts, 1)[0].single_peak.has_value());
}

TEST(CeilingsTest, AShapeThatAlsoRanOutOfMemoryIsNotValidated) {
  const std::vector<Ceiling> ceilings = ceilings_of(
      std::vector{at_batch("4"), at_batch("4"), at_batch("4"), at_batch("4", receipt::EndingKind::out_of_memory)});
  EXPECT_FALSE(ceilings[0].validated.has_value());
  EXPECT_EQ(ceilings[0].single_peak->out_of_memory, 1U);
}

TEST(CeilingsTest, WhatWasKilledOrFailedShowsNothing) {
  using receipt::EndingKind;
  const std::vector<Ceiling> ceilings =
      ceilings_of(std::vector{at_batch("4", EndingKind::interrupted), at_batch("8", EndingKind::killed),
                              at_batch("8", EndingKind::failed), at_batch("8", EndingKind::running)},
                  1);
  ASSERT_EQ(ceilings.size(), 1U);
  EXPECT_EQ(ceilings[0].validated->batch, 4);
  EXPECT_FALSE(ceilings[0].single_peak.has_value());
}

TEST(CeilingsTest, WhatPlanningChoseIsNoLaneOfItsOwn) {
  std::vector<receipt::Receipt> receipts = {at_batch("4"), at_batch("8")};
  receipts[0].header.program.recompute = "A=auto:none M=none";
  receipts[1].header.program.recompute = "A=auto:full M=none";
  const std::vector<Ceiling> chosen = ceilings_of(receipts, 1);
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].validated->batch, 8);
  EXPECT_TRUE(chosen[0].lane.ends_with(" recompute A=auto M=none")) << chosen[0].lane;
  receipts[1].header.program.recompute = "A=full M=none";
  EXPECT_EQ(ceilings_of(receipts, 1).size(), 2U);
}

TEST(CeilingsTest, OtherLanesAndRunsWithoutStepsHaveNoPartInIt) {
  receipt::Receipt failed = at_batch("32", receipt::EndingKind::failed);
  failed.ending.steps = 0;
  receipt::Receipt wide = at_batch("4");
  wide.header.hardware.mesh = "model=2";
  const std::vector<Ceiling> ceilings = ceilings_of(std::vector{at_batch("4"), wide, failed});
  ASSERT_EQ(ceilings.size(), 2U);
  for (const Ceiling& ceiling : ceilings) EXPECT_EQ(ceiling.single_peak->batch, 4);
}

}  // namespace
}  // namespace megacpp::compare
