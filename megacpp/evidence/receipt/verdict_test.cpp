// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/verdict.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/clean_receipt.h"

namespace megacpp::receipt {
namespace {

using testing_support::clean_receipt;

/// What spoils a clean receipt, and the one reason that follows.
struct Spoiled {
  const char* reason;
  std::function<void(Receipt&)> spoil;
};

void spread_samples(Receipt& receipt) {
  for (size_t i = 0; i < receipt.times.samples.seconds.size(); i += 2) receipt.times.samples.seconds[i] *= 2;
  receipt.times.spread = spread_of(receipt.times.samples.seconds);
}

const std::vector<Spoiled>& spoiled_ways() {
  static const std::vector<Spoiled> ways = {
      {"program not known", [](Receipt& receipt) { receipt.header.versions = {}; }},
      {"ended early", [](Receipt& receipt) { receipt.ending.kind = EndingKind::killed; }},
      {"too few steps", [](Receipt& receipt) { receipt.times.steady->steps = kLeastSteadySteps - 1; }},
      {"compile after warm-up", [](Receipt& receipt) { receipt.counters.steady->programs_made = 1; }},
      {"fallback",
       [](Receipt& receipt) { receipt.counters.fallbacks = {{.op = "ssd", .reason = "no kernel", .count = 3}}; }},
      {"host sync", [](Receipt& receipt) { receipt.counters.steady->host_syncs = 2; }},
      {"unstable spread", spread_samples},
      {"clocks throttled", [](Receipt& receipt) { receipt.counters.throttled = 4; }}};
  return ways;
}

TEST(VerdictTest, ACleanRunIsComparable) {
  Receipt receipt = clean_receipt();
  EXPECT_TRUE(verdict_of(receipt).is_comparable());
  receipt.counters.throttled = 0;
  EXPECT_TRUE(verdict_of(receipt).is_comparable());
}

TEST(VerdictTest, EveryReasonAloneMakesARunNotComparable) {
  std::set<std::string_view> made;
  for (const Spoiled& way : spoiled_ways()) {
    Receipt receipt = clean_receipt();
    way.spoil(receipt);
    const Verdict verdict = verdict_of(receipt);
    ASSERT_EQ(verdict.reasons.size(), 1U) << way.reason;
    EXPECT_EQ(verdict.reasons[0].name, way.reason);
    EXPECT_TRUE(verdict.reasons[0].sentence.ends_with(".")) << verdict.reasons[0].sentence;
    EXPECT_FALSE(next_step(verdict.reasons[0]).empty()) << way.reason;
    made.insert(way.reason);
  }
  for (const Rule& rule : all_rules()) EXPECT_TRUE(made.contains(rule.name)) << rule.name << " is not tried";
}

TEST(VerdictTest, AReasonOfAnotherVersionHasNoNextStep) { EXPECT_EQ(next_step({.name = "too hot"}), ""); }

TEST(VerdictTest, EveryEndingButTheLastStepIsEarly) {
  for (const EndingKind kind : {EndingKind::running, EndingKind::interrupted, EndingKind::failed,
                                EndingKind::out_of_memory, EndingKind::killed}) {
    Receipt receipt = clean_receipt();
    receipt.ending.kind = kind;
    EXPECT_FALSE(verdict_of(receipt).is_comparable()) << base::text_of(kind);
  }
}

TEST(VerdictTest, FewSamplesOfManyStepsAreTooFew) {
  Receipt receipt = clean_receipt();
  receipt.times.samples.seconds.resize(kLeastSamples - 1);
  receipt.times.spread = spread_of(receipt.times.samples.seconds);
  const Verdict verdict = verdict_of(receipt);
  ASSERT_EQ(verdict.reasons.size(), 1U);
  EXPECT_EQ(verdict.reasons[0].name, "too few steps");
}

TEST(VerdictTest, ARunWithoutAStepHasItsReasons) {
  EXPECT_EQ(verdict_of({}).reasons.size(), 3U) << "program not known, ended early, too few steps";
}

}  // namespace
}  // namespace megacpp::receipt
