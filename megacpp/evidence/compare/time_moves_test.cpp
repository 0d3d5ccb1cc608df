// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/time_moves.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

namespace megacpp::compare {
namespace {

using receipt::Receipt;

/// A run of 100 steps of 1000 tokens.
Receipt run_with(const receipt::Parts& parts) {
  Receipt receipt;
  receipt.header.batch.tokens = 1000;
  receipt.header.program.layout = "one chip";
  receipt.mfu.model_flops = 1e6;
  receipt.times.parts = parts;
  const double step = parts.arithmetic + parts.memory + parts.links + parts.bubble + parts.other;
  receipt.times.steady = receipt::Phase{.steps = 100, .tokens = 100'000, .seconds = 100 * step};
  receipt.collectives = std::vector<receipt::Collective>{};
  return receipt;
}

TimeMoves moves_of(const Receipt& before, const Receipt& after) {
  return time_moves(std::vector{before}, std::vector{after});
}

const PartMove& part_of(const TimeMoves& moves, const std::string& name) {
  for (const PartMove& part : moves.parts)
    if (part.part == name) return part;
  throw std::logic_error("no part " + name);
}

TEST(TimeMovesTest, EveryPartHasItsOwnSecondsAndWhatIsLeftIsUnexplained) {
  const TimeMoves moves = moves_of(run_with({.arithmetic = 1, .memory = 2, .links = 3, .bubble = 4, .other = 5}),
                                   run_with({.arithmetic = 1, .memory = 2.5, .links = 1, .bubble = 5, .other = 8}));
  EXPECT_DOUBLE_EQ(moves.baseline, 15);
  EXPECT_DOUBLE_EQ(moves.other, 17.5);
  ASSERT_EQ(moves.parts.size(), 4U);
  EXPECT_DOUBLE_EQ(part_of(moves, "arithmetic").change(), 0);
  EXPECT_DOUBLE_EQ(part_of(moves, "memory").change(), 0.5);
  EXPECT_DOUBLE_EQ(part_of(moves, "links").change(), -2);
  EXPECT_DOUBLE_EQ(part_of(moves, "bubble").change(), 1);
  EXPECT_EQ(moves.parts[0].part, "links") << "the largest move first, either way";
  EXPECT_EQ(moves.parts[1].part, "bubble");
  EXPECT_NEAR(moves.unexplained, 3, 1e-12);
  EXPECT_FALSE(moves.cause) << "links moved most, and the other way";
}

TEST(TimeMovesTest, TheCauseHasAtLeastHalfOfTheChange) {
  const Receipt before = run_with({.arithmetic = 1, .other = 1});
  EXPECT_EQ(moves_of(before, run_with({.arithmetic = 1.5, .other = 1.5})).cause, "arithmetic");
  EXPECT_FALSE(moves_of(before, run_with({.arithmetic = 1.25, .other = 1.75})).cause);
  EXPECT_EQ(moves_of(before, run_with({.arithmetic = 0.5, .other = 1})).cause, "arithmetic") << "faster too";
  EXPECT_FALSE(moves_of(before, before).cause);
}

TEST(TimeMovesTest, BothSidesAreInSecondsForTheTokensOfTheBaseline) {
  Receipt after = run_with({.arithmetic = 4, .links = 2});
  after.header.batch.tokens = 2000;
  const TimeMoves moves = moves_of(run_with({.arithmetic = 1, .links = 1}), after);
  EXPECT_DOUBLE_EQ(moves.baseline, 2);
  EXPECT_DOUBLE_EQ(moves.other, 3);
  EXPECT_DOUBLE_EQ(part_of(moves, "arithmetic").other, 2);
  EXPECT_DOUBLE_EQ(part_of(moves, "links").other, 1);
}

TEST(TimeMovesTest, RepeatsAreMeans) {
  const std::vector<Receipt> other = {run_with({.arithmetic = 1}), run_with({.arithmetic = 4})};
  EXPECT_DOUBLE_EQ(time_moves(std::vector{run_with({.arithmetic = 1})}, other).other, 2.5);
}

TEST(TimeMovesTest, WithoutPartsAllOfTheChangeIsUnexplained) {
  Receipt after = run_with({.arithmetic = 2});
  after.times.parts.reset();
  const TimeMoves moves = moves_of(run_with({.arithmetic = 1}), after);
  EXPECT_TRUE(moves.parts.empty());
  EXPECT_DOUBLE_EQ(moves.unexplained, 1);
  EXPECT_FALSE(moves.cause);
}

TEST(TimeMovesTest, LinksNameTheThreeExchangesThatMovedMost) {
  Receipt before = run_with({.links = 1}), after = run_with({.links = 2});
  constexpr int64_t kMiB = 1 << 20;
  before.collectives = {{.axes = "data", .kind = "all_gather", .bytes = 4 * kMiB},
                        {.axes = "data", .kind = "all_gather", .bytes = 4 * kMiB},
                        {.axes = "model", .kind = "all_reduce", .bytes = kMiB},
                        {.axes = "expert", .kind = "all_to_all", .bytes = 1000},
                        {.axes = "context", .kind = "send", .bytes = 2 * kMiB}};
  after.collectives = {{.axes = "data", .kind = "all_gather", .bytes = 10 * kMiB},
                       {.axes = "model", .kind = "all_reduce", .bytes = 5 * kMiB},
                       {.axes = "expert", .kind = "all_to_all", .bytes = 1004},
                       {.axes = "data", .kind = "reduce_scatter", .bytes = kMiB}};
  EXPECT_EQ(part_of(moves_of(before, after), "links").notes,
            (std::vector<std::string>{"all_reduce over model: 1.00 MiB -> 5.00 MiB a step",
                                      "all_gather over data: 8.00 MiB -> 10.00 MiB a step",
                                      "send over context: 2.00 MiB -> 0 B a step"}))
      << "0.4 % of the tokens between experts is no other exchange";
}

TEST(TimeMovesTest, LinksOfTheSameBytesSaySo) {
  Receipt before = run_with({.links = 1}), after = run_with({.links = 2});
  EXPECT_EQ(part_of(moves_of(before, after), "links").notes, std::vector<std::string>{"the same bytes are exchanged"});
  after.collectives.reset();
  EXPECT_TRUE(part_of(moves_of(before, after), "links").notes.empty()) << "of one run they are not known";
}

TEST(TimeMovesTest, WorkNamesWhatChangedInIt) {
  const Receipt before = run_with({.arithmetic = 1});
  const auto notes = [&](const std::function<void(Receipt&)>& change) {
    Receipt after = run_with({.arithmetic = 2});
    change(after);
    return part_of(moves_of(before, after), "arithmetic").notes;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes([](Receipt&) {}), Notes{"the same work took another time"});
  EXPECT_EQ(notes([](Receipt& r) { r.mfu.model_flops = 2e6; }),
            Notes{"the model's work changed: 1e+06 -> 2e+06 FLOPs"});
  EXPECT_EQ(notes([](Receipt& r) { r.mfu.model_flops = 1.004e6; }), Notes{"the same work took another time"});
  EXPECT_EQ(notes([](Receipt& r) { r.header.program.recompute = "A=full"; }), Notes{"recompute  -> A=full"});
  EXPECT_EQ(notes([](Receipt& r) {
              r.counters.fallbacks = {{.op = "ssd", .count = 2}, {.op = "rope", .count = 3}};
            }),
            Notes{"ops without a kernel 0 -> 5"});
  Receipt one = before, two = run_with({.arithmetic = 2});
  one.header.hardware.chips = 1;
  EXPECT_EQ(part_of(moves_of(one, two), "arithmetic").notes, Notes{"the same work took another time"})
      << "of the other run they are not known";
  two.header.hardware.chips = 2;
  EXPECT_EQ(part_of(moves_of(one, two), "arithmetic").notes, Notes{"shared by 1 -> 2 chips"});
}

TEST(TimeMovesTest, APartThatDidNotMoveHasNoNotes) {
  const TimeMoves moves = moves_of(run_with({.arithmetic = 1, .bubble = 1}), run_with({.arithmetic = 1, .bubble = 2}));
  EXPECT_TRUE(part_of(moves, "arithmetic").notes.empty());
  EXPECT_EQ(part_of(moves, "bubble").notes, std::vector<std::string>{"layout one chip -> one chip"});
}

TEST(TimeMovesTest, StepsThatWaitedForDataAreCountedOverAllRepeats) {
  Receipt calm = run_with({.arithmetic = 1}), stalled = calm;
  stalled.times.data_stalls = 4;
  EXPECT_EQ(time_moves(std::vector{calm}, std::vector{stalled, stalled}).unexplained_notes,
            std::vector<std::string>{"steps that waited for data: 0 -> 8"});
  EXPECT_TRUE(moves_of(stalled, stalled).unexplained_notes.empty());
}

TEST(TimeMovesTest, AKeyHasTheAspectOfTheFirstBeginningThatFits) {
  EXPECT_EQ(aspect_of("layout.zero"), "weights kept or gathered");
  EXPECT_EQ(aspect_of("layout.policy"), "weights kept or gathered");
  EXPECT_EQ(aspect_of("layout.context_parallel"), "sequence split");
  EXPECT_EQ(aspect_of("layout.load_balance"), "sequence split");
  EXPECT_EQ(aspect_of("layout.schedule"), "overlap");
  EXPECT_EQ(aspect_of("layout.pipeline_parallel"), "topology");
  EXPECT_EQ(aspect_of("hardware.target"), "topology");
  EXPECT_EQ(aspect_of("train.micro_steps"), "compile shape");
  EXPECT_EQ(aspect_of("optimizer.lr"), "");
}

}  // namespace
}  // namespace megacpp::compare
