// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/text.h"

#include <gtest/gtest.h>

#include "tests/support/clean_receipt.h"
#include "tests/support/text.h"

namespace megacpp::receipt {
namespace {

using testing_support::clean_receipt;
using testing_support::has;

/// The lines of a clean receipt that was changed so.
template <typename Change>
std::string text_with(const Change& change) {
  Receipt receipt = clean_receipt();
  change(receipt);
  return report_text(receipt);
}

TEST(ReceiptTextTest, AnEndingSaysHowFarItCame) {
  EXPECT_EQ(to_text(Ending{.kind = EndingKind::interrupted, .steps = 14, .requested_steps = 150}),
            "interrupted after 14 of 150 steps");
  EXPECT_EQ(to_text(Ending{.kind = EndingKind::finished,
                           .started_at = "2026-11-16T21:45:12Z",
                           .ended_at = "2026-11-16T21:46:12Z",
                           .first_step = 100,
                           .steps = 150,
                           .requested_steps = 150}),
            "finished after 150 of 150 steps, the first 100 by the run it goes on with, started 2026-11-16T21:45:12Z, "
            "ended 2026-11-16T21:46:12Z");
}

TEST(ReceiptTextTest, AFailureIsItsCodePlaceAndWhatWasGot) {
  EXPECT_EQ(to_text(Failure{.code = "E1003", .where = "r.yaml:3", .got = "0"}), "E1003 r.yaml:3: 0");
  EXPECT_EQ(to_text(Failure{.code = "E2004", .got = "12.00 GiB", .oom_class = "runtime allocation"}),
            "E2004 (runtime allocation): 12.00 GiB");
}

TEST(ReceiptTextTest, AVerdictNamesItsReasons) {
  EXPECT_EQ(to_text(Verdict{}), "comparable");
  EXPECT_EQ(to_text(Verdict{.reasons = {{.name = "too few steps"}, {.name = "host sync"}}}),
            "not comparable: too few steps, host sync");
}

TEST(ReceiptTextTest, FiguresOfACleanRun) {
  const std::string text = report_text(clean_receipt());
  for (const char* line :
       {"\nrun          tiny-20261116T214512Z\n", "\nloss         5.5000 -> 4.0100\n",
        "\nfirst        1 step from step 0, 500.00 ms each, 4096 tokens/s\n", "\nwarm-up      15 steps from step 1, ",
        "\nspread       134 samples of 1 step: median 10.00 ms, ",
        "\n             peak of a chip: 1e+11 FLOP/s, f32 products of this machine\n",
        "\ncounters     compiles 1 (kernels prepared), cache hits 0, executions 0, host syncs 0\n",
        "\nplanned      chip 0: data 0 and 1 alike: 4.00 KiB of 8.00 KiB\n             weight of A 512 B\n",
        "\nmeasured     chip 0: data 0: 3.94 KiB\n",
        "\ncollective   all_reduce over data: 2.00 KiB in 3 calls a step\n",
        "\nexperts      block01: the busiest gets 1.50 times the mean, 134 requests dropped\n",
        "\ntried        rung 1 batch skipped:  needs no less\n", "\ncode         0.1.0+1f2e3d4c5b6a7988\n"})
    EXPECT_TRUE(has(text, line)) << line << "\nin\n" << text;
  for (const char* absent : {"\nerror ", "\nladder ", "\nmachine ", "\npredicted ", "\nflags ", "\nplatform "})
    EXPECT_FALSE(has(text, absent)) << absent << "\nin\n" << text;
}

TEST(ReceiptTextTest, WhatIsKnownOfSomeRunsIsSaidOfThese) {
  EXPECT_TRUE(
      has(text_with([](Receipt& r) { r.collectives.reset(); }), "collectives  placed by the backend's compiler"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.collectives->front().stage = 2; }), "in 3 calls a step, stage 2\n"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.ladder = {.rung = 2, .changes = "train.batch=4"}; }),
                  "\nladder       rung 2: train.batch=4\n"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.counters.devices.reset(); }), "\ncounters     not known\n"));
  EXPECT_TRUE(
      has(text_with([](Receipt& r) { r.counters.devices->compiles.clear(); }), "counters     compiles 0, cache"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.times.predicted_step_seconds = 0.25; }), "\npredicted    250.00 ms\n"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.ending.failure = Failure{.code = "E3101", .got = "a chip"}; }),
                  "\nerror        E3101: a chip\n"));
  EXPECT_TRUE(has(text_with([](Receipt& r) { r.memory.planned[0].limit_bytes.reset(); }), "4.00 KiB of not known"));
  EXPECT_FALSE(has(text_with([](Receipt& r) { r.losses.last.reset(); }), "\nloss "));
  EXPECT_TRUE(has(text_with([](Receipt& r) {
                    r.header.hardware.processor = "EPYC";
                    r.header.hardware.threads = 1;
                  }),
                  "\nmachine      EPYC, 1 thread a chip\n"));
  EXPECT_TRUE(has(text_with([](Receipt& r) {
                    r.times.start = {{.name = "data", .seconds = 1}, {.name = "plan", .seconds = 2}};
                  }),
                  "\nstart        "));
}

TEST(ReceiptTextTest, TransfersAreSaidWithTheirBytes) {
  const std::string text = text_with([](Receipt& r) {
    r.counters.devices->host_to_device = {.count = 2, .bytes = 1024};
    r.counters.devices->device_to_host = {.count = 5, .bytes = 2048};
  });
  EXPECT_TRUE(has(text, "to devices 1.00 KiB in 2 transfers, from devices 2.00 KiB in 5\n")) << text;
}

}  // namespace
}  // namespace megacpp::receipt
