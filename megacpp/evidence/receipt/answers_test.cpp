// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/answers.h"

#include <gtest/gtest.h>

#include "tests/support/clean_receipt.h"

namespace megacpp::receipt {
namespace {

using testing_support::clean_receipt;

/// The answers of a clean receipt that was changed so.
template <typename Change>
Answers answers_with(const Change& change) {
  Receipt receipt = clean_receipt();
  change(receipt);
  return answers_of(receipt);
}

TEST(AnswersTest, EveryQuestionHasItsAnswer) {
  const Answers answers = {
      .topology = "topology", .compile = "compile", .workload = "workload", .path = "path", .target = "target"};
  ASSERT_EQ(five_questions().size(), 5U);
  for (const Question& question : five_questions()) EXPECT_EQ(answers.*question.answer, question.name);
}

TEST(AnswersTest, Topology) {
  EXPECT_EQ(answers_of(clean_receipt()).topology, "host:2: 2 chips, mesh data=2, policy=spmd data_parallel=2 zero=1.");
  EXPECT_EQ(
      answers_with([](Receipt& r) {
        r.header.hardware.chips = 1;
        r.regime = {.name = "compute-bound", .because = "arithmetic is 90 %"};
      }).topology,
      "host:2: 1 chip, mesh data=2, policy=spmd data_parallel=2 zero=1. Regime: compute-bound (arithmetic is 90 %).");
  const char* const kUnknown = "Not known: the run left no plan.";
  EXPECT_EQ(answers_with([](Receipt& r) { r.header.hardware.chips.reset(); }).topology, kUnknown);
  EXPECT_EQ(answers_with([](Receipt& r) { r.header.hardware.topology.clear(); }).topology, kUnknown);
}

TEST(AnswersTest, Compiling) {
  EXPECT_EQ(answers_of(clean_receipt()).compile,
            "Compiling: own passes alone. Amortised: the figures are of 134 steps after 15 of warm-up, 10.13 ms each; "
            "the first took 500.00 ms.");
  EXPECT_EQ(
      answers_with([](Receipt& r) { r.times.steady.reset(); }).compile,
      "Compiling: own passes alone. Cold: the first step took 500.00 ms, and the times of those that followed are "
      "not known.");
  EXPECT_EQ(answers_with([](Receipt& r) {
              r.times.steady.reset();
              r.ending.steps = r.times.first->steps + r.times.warm_up->steps;
            }).compile,
            "Compiling: own passes alone. Cold: the first step took 500.00 ms, and no steady one followed.");
  EXPECT_EQ(
      answers_with([](Receipt& r) {
        r.times.compile.clear();
        r.times.warm_up.reset();
      }).compile,
      "Compiling: not known. Amortised: the figures are of 134 steps after 0 of warm-up, 10.13 ms each; the first "
      "took 500.00 ms.");
  EXPECT_EQ(answers_with([](Receipt& r) { r.times.first.reset(); }).compile,
            "Not known: the log has no times of steps.");
  EXPECT_EQ(answers_with([](Receipt& r) {
              r.times.first.reset();
              r.ending.steps = 0;
            }).compile,
            "Neither: no step was made.");
}

TEST(AnswersTest, Workload) {
  EXPECT_EQ(answers_with([](Receipt& r) {
              r.header.batch.sequence = 1;
              r.header.batch.batch = 3;
              r.header.batch.micro_steps = 2;
            }).workload,
            "1 token a sequence, 2 x 3 sequences a step, of tiny, a hybrid model (pattern AEMR, depth 4).");
}

TEST(AnswersTest, Path) {
  EXPECT_EQ(answers_of(clean_receipt()).path,
            "Yes: on cpu, without fallback, compile or host sync in the steady window.");
  EXPECT_EQ(answers_with([](Receipt& r) { r.counters.steady->programs_made = 1; }).path,
            "No: 1 program made and 0 host syncs in the steady window, on cpu.");
  EXPECT_EQ(answers_with([](Receipt& r) { r.counters.steady->host_syncs = 1; }).path,
            "No: 0 programs made and 1 host sync in the steady window, on cpu.");
  EXPECT_EQ(answers_with([](Receipt& r) {
              r.counters.fallbacks = {{.op = "ssd"}, {.op = "rope"}};
              r.header.program.path = "cuda, cuBLAS";
            }).path,
            "No: 2 kinds of ops ran as their parts on cuda, cuBLAS.");
  EXPECT_EQ(answers_with([](Receipt& r) {
              r.counters.steady.reset();
              r.header.program.path.clear();
            }).path,
            "Not known: there was no steady window on cpu. No op fell back.");
  EXPECT_EQ(answers_with([](Receipt& r) { r.header.versions.code.clear(); }).path, "Not known: the run left no plan.");
}

TEST(AnswersTest, TargetShape) {
  EXPECT_TRUE(answers_of(clean_receipt()).target.starts_with("This run has the requested shape;"));
  EXPECT_TRUE(answers_with([](Receipt& r) {
                r.ladder = {.rung = 1, .changes = "train.batch=4"};
              }).target.starts_with("This run has another shape than requested (train.batch=4);"));
}

}  // namespace
}  // namespace megacpp::receipt
