// SPDX-License-Identifier: Apache-2.0
// Training the tiny recipe, and the receipt that each way to end leaves.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/runs_folder.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp {
namespace {

using receipt::EndingKind;
using receipt::Receipt;
using receipt::receipt_of;
using testing_support::CommandResult;
using testing_support::Ending;
using testing_support::has;
using testing_support::run_command;

class RunReceiptTest : public testing::Test {
 protected:
  std::vector<std::string> train_words(const std::vector<std::string>& more) const {
    std::vector<std::string> settings = {"model.depth=2",
                                         "train.batch=1",
                                         "train.sequence=16",
                                         "train.threads=1",
                                         "train.log_every=1",
                                         "train.steps=40",
                                         "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs/errors.md]"};
    settings.insert(settings.end(), more.begin(), more.end());
    return testing_support::on_recipe("train", "nam52-tiny.yaml", settings,
                                      {"--no-catalog", "--run-dir", run_.string()});
  }

  /// Trains for ever in a process of its own, and gets the signal once 30 steps are logged.
  Ending signalled(int signal) const {
    const std::string err = (folder_ / "err").string();
    base::write_file_atomically(err, "");
    const auto send = [&](pid_t pid) {
      for (int i = 0; i < 30'000 && !has(base::read_file(err), "step    30/"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ::kill(pid, signal);
    };
    return testing_support::run_child({.words = train_words({"train.steps=100000"}),
                                       .err = err,
                                       .once_started = send,
                                       .may_be_killed = signal == SIGKILL});
  }

  const testing_support::TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_ / "run";
};

std::set<std::string> reasons_of(const Receipt& receipt) {
  std::set<std::string> names;
  for (const receipt::Reason& reason : receipt.verdict.reasons) names.insert(reason.name);
  return names;
}

// How steady a step is depends on what else runs on the machine; all other reasons would be ours.
TEST_F(RunReceiptTest, ACleanRunIsComparable) {
  const CommandResult result = run_command(train_words({}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "receipt    ")) << result.err;
  const Receipt receipt = receipt_of(run_);
  for (const std::string& reason : reasons_of(receipt))
    EXPECT_TRUE(reason == "unstable spread" || reason == "clocks throttled") << reason;
  EXPECT_EQ(receipt.ending.kind, EndingKind::finished);
  EXPECT_EQ(receipt.ending.steps, 40);
  EXPECT_EQ(receipt.times.steady->steps, 35);
  EXPECT_EQ(receipt.times.samples.seconds.size(), 35U) << "the host waits for every step";
  EXPECT_GT(*receipt.mfu.value, 0);
  EXPECT_LT(*receipt.mfu.value, 1);
  EXPECT_FALSE(receipt.mfu.peak.empty());
  EXPECT_EQ(receipt.counters.devices->executions, 40);
  EXPECT_EQ(receipt.counters.steady->host_syncs, 0) << "beside the steps themselves";
  EXPECT_EQ(receipt.counters.steady->programs_made, 0);
  EXPECT_EQ(receipt.header.model.family, "dense");
  EXPECT_EQ(receipt.header.hardware.chips, 1);
  EXPECT_EQ(receipt.header.hardware.chip, "host");
  EXPECT_TRUE(receipt.header.program.watched.empty());
  EXPECT_GT(receipt.header.model.parameters, 0);
  ASSERT_EQ(receipt.memory.measured.size(), 1U);
  EXPECT_LE(*receipt.memory.measured[0].measured_bytes, *receipt.memory.measured[0].planned_bytes);
  ASSERT_TRUE(receipt.collectives);
  EXPECT_TRUE(receipt.collectives->empty()) << "one chip";
  EXPECT_FALSE(receipt.regime.name.empty());
  EXPECT_TRUE(has(run_command({"receipt", "show", run_.string()}).out, "path         Yes"));
}

TEST_F(RunReceiptTest, TheTimeToTheFirstStepIsThereByParts) {
  const CommandResult result = run_command(train_words({"train.steps=2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "\nstart      ")) << result.err;
  std::vector<std::string> names;
  double sum = 0;
  const Receipt receipt = receipt_of(run_);
  for (const receipt::StartPart& part : receipt.times.start) {
    names.push_back(part.name);
    EXPECT_GE(part.seconds, 0) << part.name;
    sum += part.seconds;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"recipe", "data", "plan", "kernels", "weights", "other"}));
  EXPECT_GT(sum, 0);
  EXPECT_TRUE(has(run_command({"receipt", "show", run_.string()}).out, "start        "));
}

TEST_F(RunReceiptTest, WhatWatchedTheRunIsNoted) {
  std::vector<std::string> words = train_words({"train.steps=2"});
  words.emplace_back("--profile");
  ASSERT_EQ(run_command(words).status, 0);
  EXPECT_EQ(receipt_of(run_).header.program.watched, std::vector<std::string>{"profile"});
}

TEST_F(RunReceiptTest, ARunOnAMeshNamesItsCollectivesAndChips) {
  const CommandResult result = run_command(train_words({"layout.data_parallel=2", "train.batch=2"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.header.hardware.mesh, "data=2");
  EXPECT_EQ(receipt.memory.measured.size(), 2U);
  ASSERT_FALSE(receipt.collectives.value_or(std::vector<receipt::Collective>{}).empty());
  EXPECT_EQ(receipt.collectives->front().axes, "data");
  EXPECT_GT(receipt.collectives->front().bytes, 0);
}

TEST_F(RunReceiptTest, AnInterruptedRunSaysSo) {
  const Ending ending = signalled(SIGINT);
  ASSERT_EQ(ending.status, base::kInterruptedStatus) << ending.err;
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::interrupted);
  EXPECT_GE(receipt.ending.steps, 30);
  EXPECT_FALSE(receipt.ending.failure);
  EXPECT_TRUE(reasons_of(receipt).contains("ended early"));
}

TEST_F(RunReceiptTest, AFailedRunKeepsItsCode) {
  const CommandResult result = run_command(train_words({"optimizer.lr=1e9", "optimizer.warmup_steps=0"}));
  ASSERT_EQ(result.status, 2) << result.err;
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::failed);
  ASSERT_TRUE(receipt.ending.failure);
  EXPECT_EQ(receipt.ending.failure->code, "E1302");
  EXPECT_LT(receipt.ending.steps, 40);
  EXPECT_FALSE(receipt.counters.devices) << "the run was gone: absent, not 0";
}

TEST_F(RunReceiptTest, ARunOutOfMemoryKeepsWhereAndWhat) {
  const CommandResult result = run_command(train_words({"hardware.fail_allocation=[chip 0 step 1]"}));
  ASSERT_EQ(result.status, 3) << result.err;
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::out_of_memory);
  ASSERT_TRUE(receipt.ending.failure);
  EXPECT_EQ(receipt.ending.failure->code, "E2004");
  EXPECT_EQ(receipt.ending.failure->oom_class, "runtime allocation");
  EXPECT_EQ(receipt.ending.failure->step, 1);
  EXPECT_TRUE(receipt.ending.failure->is_injected);
  EXPECT_EQ(receipt.ending.steps, 1);
}

TEST_F(RunReceiptTest, ALaunchThatNothingFitsForLeavesAReceiptAndNoRun) {
  ASSERT_NE(run_command(train_words({"hardware.limit=1MiB"})).status, 0);
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::out_of_memory);
  EXPECT_EQ(receipt.ending.steps, 0);
  EXPECT_FALSE(receipt.times.first);
  EXPECT_FALSE(launch::is_run(run_));
  EXPECT_EQ(run_command(train_words({"train.steps=2"})).status, 0) << "the folder is free";
  EXPECT_EQ(receipt_of(run_).ending.kind, EndingKind::finished);
}

TEST_F(RunReceiptTest, AKilledRunIsToldFromItsDirectory) {
  const Ending ending = signalled(SIGKILL);
  ASSERT_EQ(ending.signal, SIGKILL) << ending.err;
  const CommandResult listed = run_command({"runs", "list", folder_.path().string()});
  EXPECT_TRUE(has(listed.out, ", killed")) << listed.out;
  const Receipt receipt = receipt_of(run_ / receipt::kReceiptFile);  // as the list has stored it
  EXPECT_EQ(receipt.ending.kind, EndingKind::killed);
  EXPECT_GE(receipt.ending.steps, 29);
  EXPECT_TRUE(receipt.times.first);
  EXPECT_FALSE(receipt.header.hardware.topology.empty());
  EXPECT_TRUE(receipt.ending.ended_at.empty());
}

TEST_F(RunReceiptTest, AResumeWithNothingToDoKeepsTheReceipt) {
  ASSERT_EQ(run_command(train_words({"train.steps=4"})).status, 0);
  const std::string before = base::read_file(run_ / receipt::kReceiptFile);
  ASSERT_EQ(run_command({"train", "--resume", run_.string(), "--no-catalog"}).status, 0);
  EXPECT_EQ(base::read_file(run_ / receipt::kReceiptFile), before);
  ASSERT_EQ(run_command({"train", "--resume", run_.string(), "--no-catalog", "--set", "train.steps=6"}).status, 0);
  EXPECT_EQ(receipt_of(run_).ending.first_step, 4);
  EXPECT_EQ(receipt_of(run_).ending.steps, 6);
}

TEST_F(RunReceiptTest, AReceiptThatCannotBeTrustedHidesNoOtherRun) {
  ASSERT_EQ(run_command(train_words({"train.steps=2"})).status, 0);
  std::filesystem::copy(run_, folder_ / "edited",
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  std::string text = base::read_file(run_ / receipt::kReceiptFile);
  base::write_file_atomically(folder_ / "edited" / receipt::kReceiptFile,
                              text.replace(text.find("\"kind\""), 6, "\"kin_\""));
  const CommandResult listed = run_command({"runs", "list", folder_.path().string(), "--json"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  const base::Json runs = base::Json::parse(listed.out).at("runs");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs.at(0).at("receipt").at("error").at("code"), "E1801");
  EXPECT_EQ(runs.at(1).at("receipt").at("ending"), "finished");
  EXPECT_EQ(run_command({"receipt", "show", (folder_ / "edited").string()}).status, 2);
  std::filesystem::remove(folder_ / "edited" / receipt::kReceiptFile);
  const Receipt remade = receipt_of(folder_ / "edited");
  EXPECT_EQ(remade.ending.kind, EndingKind::finished) << "from recipe and log";
  EXPECT_TRUE(reasons_of(remade).contains("program not known")) << "which do not say what ran it";
}

}  // namespace
}  // namespace megacpp
