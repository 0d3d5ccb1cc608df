// SPDX-License-Identifier: Apache-2.0
// Launches that are planned and trained for a few steps, and the receipts that they leave on the way.
#include "megacpp/evidence/receipt/recorder.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/run_directory.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::receipt {
namespace {

class RecorderTest : public testing::Test {
 protected:
  explicit RecorderTest(std::vector<std::string> more = {})
      : launch_(recipe_with(std::move(more)), {.none = true}, [this](const launch::Line& line) { log(line); }) {
    launch_.prepare();
    base::make_folder(run_);
  }

  static recipe::Recipe recipe_with(std::vector<std::string> more) {
    more.insert(more.begin(), {"train.steps=3", "train.batch=2", "train.sequence=16", "model.depth=2",
                               "train.threads=1", "train.wait_limit=60", "layout.data_parallel=2"});
    return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", more);
  }
  void log(const launch::Line& line) {
    if (line.topic == "receipt") said_.push_back(line.text);
  }
  Recorder recorder(int64_t first_step = 0) {
    return Recorder(launch_, run_, {.data = "the licence", .without = {"fuse"}}, first_step);
  }
  Receipt stored() const { return receipt_from(base::read_file(run_ / kReceiptFile), "test"); }

  const testing_support::TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_ / "run-7";
  std::vector<std::string> said_;
  launch::Launch launch_;
};

TEST_F(RecorderTest, BeforeTheFirstStepTheRunIsRunningAsPlanned) {
  Recorder recorder = this->recorder();
  recorder.watch({"profile"});
  recorder.begin({{.name = "plan", .seconds = 2, .note = "cached"}});
  const Receipt receipt = stored();
  EXPECT_EQ(receipt.run, "run-7");
  EXPECT_EQ(receipt.ending.kind, EndingKind::running);
  EXPECT_FALSE(receipt.ending.started_at.empty());
  EXPECT_TRUE(receipt.ending.ended_at.empty());
  EXPECT_EQ(receipt.ending.requested_steps, 3);
  EXPECT_EQ(receipt.header.hardware.mesh, "data=2");
  EXPECT_EQ(receipt.header.hardware.chips, 2);
  EXPECT_EQ(receipt.header.hardware.threads, 1);
  EXPECT_EQ(receipt.header.batch.data, "the licence");
  EXPECT_EQ(receipt.header.program.without, std::vector<std::string>{"fuse"});
  EXPECT_EQ(receipt.header.program.watched, std::vector<std::string>{"profile"});
  ASSERT_EQ(receipt.times.start.size(), 1U);
  EXPECT_EQ(receipt.times.start[0].note, "cached");
  EXPECT_TRUE(receipt.times.load_seconds);
  EXPECT_GT(recorder.seconds(), 0);
}

TEST_F(RecorderTest, ThePlanIsThatOfTheLaunch) {
  const Receipt receipt = planned_receipt(launch_, {});
  int64_t parameters = 0;
  for (const blocks::Parameter& parameter : launch_.estimate().compiled.parameters)
    parameters += ir::num_elements(parameter.shape);
  EXPECT_EQ(receipt.header.model.parameters, parameters);
  ASSERT_EQ(receipt.memory.planned.size(), 1U) << "two chips alike";
  const ChipGroup& chips = receipt.memory.planned[0];
  EXPECT_EQ(chips.chips, 2);
  EXPECT_EQ(chips.planned_bytes, launch_.estimate().compiled.stages[0].memory.total_bytes);
  int64_t items = 0;
  for (const MemoryItem& item : chips.items) items += item.bytes;
  EXPECT_LE(items, chips.planned_bytes);
  EXPECT_GT(items, chips.planned_bytes / 2);
  ASSERT_TRUE(receipt.collectives);
  EXPECT_FALSE(receipt.collectives->empty());
  EXPECT_EQ(receipt.collectives->front().axes, "data");
  EXPECT_EQ(receipt.ladder.rung, 0);
  EXPECT_EQ(receipt.mfu.model_flops, launch_.estimate().compiled.model_flops);
  EXPECT_EQ(receipt.recipe, receipt_from(to_text(receipt), "test").recipe);
  const std::vector<FamilyMemory> along_step = memory_along_step(launch_);
  ASSERT_FALSE(along_step.empty());
  for (const FamilyMemory& family : along_step) EXPECT_EQ(family.bytes.size(), along_step[0].bytes.size());
}

TEST_F(RecorderTest, ARunThatEndsLeavesWhatItMeasured) {
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  Recorder recorder = this->recorder();
  const launch::Trained trained =
      launch::run_training(launch_, corpus, {.before_steps = [&](const launch::StartedRun&) { recorder.begin({}); }});
  recorder.finish(trained);
  const Receipt receipt = stored();
  EXPECT_EQ(receipt.ending.kind, EndingKind::finished);
  EXPECT_EQ(receipt.ending.steps, 3);
  EXPECT_FALSE(receipt.ending.ended_at.empty());
  EXPECT_EQ(receipt.times.compile, "own passes alone");
  EXPECT_EQ(receipt.times.saving_seconds, 0);
  EXPECT_TRUE(receipt.counters.devices);
  ASSERT_EQ(receipt.memory.measured.size(), 2U);
  EXPECT_EQ(receipt.memory.measured[1].chip, 1);
  EXPECT_EQ(receipt.memory.measured[1].place, "chip 1: data 1");
  EXPECT_FALSE(receipt.repeats.empty());
  EXPECT_FALSE(receipt.regime.name.empty());
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_[0].starts_with("not comparable: too few steps")) << said_[0];
}

TEST_F(RecorderTest, ARunThatFailsNamesItsErrorAndHowItEnds) {
  Recorder recorder = this->recorder();
  recorder.begin({});
  recorder.fail(base::Error(base::Code::E3101, {.where = "chip 1", .got = "it is gone", .wanted = "w", .next = "n"}));
  Receipt receipt = stored();
  EXPECT_EQ(receipt.ending.kind, EndingKind::failed);
  EXPECT_FALSE(receipt.ending.ended_at.empty());
  ASSERT_TRUE(receipt.ending.failure);
  EXPECT_EQ(receipt.ending.failure->code, "E3101");
  EXPECT_EQ(receipt.ending.failure->where, "chip 1");
  EXPECT_EQ(receipt.ending.failure->wanted, "w");
  EXPECT_EQ(receipt.ending.failure->next, "n");
  recorder.fail(memory::OutOfMemory(base::Code::E2004, {.got = "12 GiB"},
                                    {.cls = memory::OomClass::runtime,
                                     .phase = "step",
                                     .place = "chip 1: data 1",
                                     .step = 2,
                                     .wanted = 12,
                                     .limit = 8,
                                     .is_injected = true}));
  receipt = stored();
  EXPECT_EQ(receipt.ending.kind, EndingKind::out_of_memory);
  EXPECT_EQ(receipt.ending.failure->oom_class, memory::oom_class_name(memory::OomClass::runtime));
  EXPECT_EQ(receipt.ending.failure->phase, "step");
  EXPECT_EQ(receipt.ending.failure->chip, "chip 1: data 1");
  EXPECT_EQ(receipt.ending.failure->step, 2);
  EXPECT_EQ(receipt.ending.failure->wanted_bytes, 12);
  EXPECT_EQ(receipt.ending.failure->limit_bytes, 8);
  EXPECT_TRUE(receipt.ending.failure->is_injected);
}

TEST_F(RecorderTest, ErrorsOfOthersHaveACodeToo) {
  Receipt receipt;
  add_failure(receipt, std::bad_alloc());
  EXPECT_EQ(receipt.ending.kind, EndingKind::out_of_memory);
  EXPECT_EQ(receipt.ending.failure->code, "E2005");
  add_failure(receipt, std::runtime_error("what"));
  EXPECT_EQ(receipt.ending.kind, EndingKind::failed);
  EXPECT_EQ(receipt.ending.failure->code, "E9001");
  EXPECT_EQ(receipt.ending.failure->got, "what");
  add_failure(receipt, base::Error(base::Code::E2001, {}));
  EXPECT_EQ(receipt.ending.kind, EndingKind::out_of_memory) << "it does not fit";
}

TEST_F(RecorderTest, WhatFailsBeforeItBeganLeavesAnEarlierReceipt) {
  base::write_file_atomically(run_ / "recipe.yaml", "name: tiny\n");
  Recorder recorder = this->recorder(1);
  recorder.fail(base::Error(base::Code::E1008, {}));
  EXPECT_FALSE(base::exists(run_ / kReceiptFile));
  recorder.begin({});
  EXPECT_EQ(stored().ending.first_step, 1);
  EXPECT_EQ(stored().ending.steps, 1);
}

TEST_F(RecorderTest, ARunWithNothingLeftToDoKeepsItsReceipt) {
  Recorder recorder = this->recorder(3);
  recorder.begin({});
  recorder.finish({});
  EXPECT_FALSE(base::exists(run_ / kReceiptFile));
}

TEST_F(RecorderTest, AReceiptThatCannotBeWrittenIsSaidAndEndsNothing) {
  Recorder recorder(launch_, folder_ / "no folder" / "run", {});
  recorder.begin({});
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_[0].starts_with("not written: ")) << said_[0];
}

TEST_F(RecorderTest, OpsThatFellBackAreCountedByReason) {
  compile::Compiled compiled;
  compiled.fallbacks = {{.op = "ssd", .scope = "a", .reason = "no kernel"},
                        {.op = "rope", .scope = "a", .reason = "no kernel"},
                        {.op = "ssd", .scope = "b", .reason = "no kernel"},
                        {.op = "ssd", .scope = "b", .reason = "too wide"}};
  const std::vector<Fallback> fallbacks = fallbacks_of(compiled);
  ASSERT_EQ(fallbacks.size(), 3U);
  EXPECT_EQ(fallbacks[0].op, "rope");
  EXPECT_EQ(fallbacks[1].op, "ssd");
  EXPECT_EQ(fallbacks[1].count, 2);
  EXPECT_EQ(fallbacks[2].reason, "too wide");
}

}  // namespace
}  // namespace megacpp::receipt
