// SPDX-License-Identifier: Apache-2.0
// The judges of the faults find what they are there for, and the tables are whole.
#include "tests/faults/judge.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <set>
#include <string>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "tests/support/table_names.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::faults {
namespace {

using testing_support::Ending;

const Command kPlain{"ops", "ops"};
const std::string kFullDisk =
    "error E3001 " + std::string(base::code_title(base::Code::E3001)) +
    "\n  where:  stdout\n  got:    No space left on device\n  wanted: room\n  next:   free some\n";

size_t breaches(const Injection& injection, const Command& command, const Ending& ending) {
  return judge_command(injection, command, ending).size();
}

TEST(JudgeTest, OutputThatIsLostMustBeAnError) {
  const Injection lost{.stdout_is = Stream::lost};
  EXPECT_EQ(breaches(lost, kPlain, {.status = 1, .err = kFullDisk}), 0u);
  EXPECT_EQ(breaches(lost, kPlain, {.status = 0}), 1u);
  EXPECT_EQ(breaches(lost, kPlain, {.status = base::kInterruptedStatus}), 1u);
  EXPECT_EQ(
      breaches(lost, {.name = "serve", .words = "serve", .until_stopped = true}, {.status = base::kInterruptedStatus}),
      0u);
  EXPECT_EQ(breaches({.stdout_is = Stream::unseen}, kPlain, {.status = 0}), 0u);
}

TEST(JudgeTest, OnlySignalsThatWereSentMayEndACommand) {
  EXPECT_EQ(breaches({.signals = {SIGKILL}}, kPlain, {.signal = SIGKILL}), 0u);
  EXPECT_EQ(breaches({.signals = {SIGKILL}}, kPlain, {.signal = SIGSEGV}), 1u);
  EXPECT_EQ(breaches({.signals = {SIGTERM}}, kPlain, {.signal = SIGTERM}), 1u);
  EXPECT_EQ(breaches({}, kPlain, {.hung = true}), 1u);
}

TEST(JudgeTest, WhatIsHiddenIsNotJudgedAndTheRestIs) {
  const Command json{"ops", "ops --json", true};
  EXPECT_EQ(breaches({.hides_stderr = true}, json, {.status = 1, .out = R"({"error": {}})"}), 0u);
  EXPECT_EQ(breaches({.hides_stderr = true}, json, {.status = 70, .out = R"({"error": {}})"}), 1u);
  EXPECT_EQ(breaches({.hides_stderr = true}, json, {.status = 0, .out = "{"}), 1u);
  EXPECT_EQ(breaches({.stdout_is = Stream::unseen}, json, {.status = 0, .out = "{"}), 0u);
  EXPECT_EQ(breaches({}, json, {.status = 0, .out = "{"}), 1u);
}

TEST(JudgeTest, OfSeveralProcessesOnlyTheStatusIsJudged) {
  const Command processes{.name = "run", .words = "run", .has_launcher = true};
  EXPECT_EQ(breaches({}, processes, {.status = 1, .err = kFullDisk + kFullDisk}), 0u);
  EXPECT_EQ(breaches({}, kPlain, {.status = 1, .err = kFullDisk + kFullDisk}), 1u);
  EXPECT_EQ(breaches({}, processes, {.status = 70}), 1u);
}

TEST(JudgeTest, ACatalogIsReadAtOnceAndHasLostNothing) {
  const std::string kept =
      R"({"entries": [{"model": "other"}, {"model": ")" + std::string(kRememberedModel) + R"("}]})";
  EXPECT_TRUE(judge_catalog({.out = kept}).empty());
  EXPECT_FALSE(judge_catalog({.out = R"({"entries": [{"model": "other"}]})"}).empty());
  EXPECT_FALSE(judge_catalog({.out = R"({"entries": []})"}).empty());
  EXPECT_FALSE(judge_catalog({.status = 1, .err = kFullDisk}).empty());
}

TEST(JudgeTest, SignalsWithinASecondAreOneRequest) {
  using std::chrono::milliseconds;
  EXPECT_TRUE(is_one_request({.signals = {SIGTERM}}, milliseconds(0)));
  EXPECT_TRUE(is_one_request({.signals = {SIGTERM, SIGHUP}}, milliseconds(500)));
  EXPECT_FALSE(is_one_request({.signals = {SIGTERM, SIGHUP}}, milliseconds(1500)));
  EXPECT_FALSE(is_one_request({.signals = {SIGKILL}}, milliseconds(0)));
  EXPECT_FALSE(is_one_request({}, milliseconds(0)));
  EXPECT_FALSE(is_one_request({.disk = Disk{}, .signals = {SIGTERM}}, milliseconds(0))) << "another fault beside it";
  EXPECT_FALSE(is_one_request({.after = ">&-", .signals = {SIGTERM}}, milliseconds(0)));
}

TEST(JudgeTest, AStoppedRunHasItsEndAndItsCheckpoint) {
  const testing_support::TemporaryFolder run;
  const auto left = [&](const std::string& ending) {
    base::write_file_atomically(run / "receipt.json", "{\"ending\": " + ending + "}");
    return judge_run(run.path()).size();
  };
  EXPECT_EQ(judge_run(run.path()).size(), 0u) << "it has not begun";
  EXPECT_EQ(left(R"({"kind": "running", "steps": 0})"), 1u);
  EXPECT_EQ(left(R"({"kind": "interrupted", "steps": 0})"), 0u);
  EXPECT_EQ(left(R"({"kind": "interrupted", "steps": 3})"), 1u);
  base::make_folder(run / "checkpoints" / "step-00000003");
  base::write_file_atomically(run / "checkpoints" / "step-00000003" / "manifest.json", "{}");
  EXPECT_EQ(left(R"({"kind": "finished", "steps": 3})"), 0u);
  EXPECT_EQ(left(R"({"kind": "finished", "steps": 4})"), 1u);
  EXPECT_EQ(left("{"), 1u);
  EXPECT_EQ(left("3"), 1u);
}

TEST(FaultTablesTest, EveryCommandIsTried) {
  std::set<std::string> tried, names;
  for (const Command& command : all_commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    EXPECT_EQ(command.json, command.words.ends_with("--json")) << command.name;
    EXPECT_EQ(command.words.find("--help"), std::string::npos) << command.name << " does nothing";
    tried.insert(command.words.substr(0, command.words.find(' ')));
  }
  const std::set<std::string> wanted = {
#define MEGACPP_COMMAND(name) #name,
#include "megacpp/cli/commands.inc"
#undef MEGACPP_COMMAND
  };
  EXPECT_EQ(tried, wanted);
}

TEST(FaultTablesTest, TheDocumentationHasEveryFaultAndNoOther) {
  std::set<std::string> names;
  for (const Fault& fault : all_faults()) EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
  EXPECT_EQ(testing_support::names_in_table(base::read_file(MEGACPP_SOURCE_DIR "/docs/robustness.md"), "fault"), names);
}

TEST(FaultTablesTest, FoldersTakeTheirPlaces) {
  EXPECT_EQ(with_folders("a {case}/x {shared}/y {case}", {.own = "/1", .shared = "/{case}"}), "a /1/x /{case}/y /1");
}

}  // namespace
}  // namespace megacpp::faults
