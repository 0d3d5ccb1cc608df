// SPDX-License-Identifier: Apache-2.0
// What others' tools get of a run: while it trains, and from its directory afterwards.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/command_line.h"
#include "tests/support/read_events.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::has;
using testing_support::ReadEvent;
using testing_support::run_command;

class RunsExportTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  CommandResult train(const std::vector<std::string>& more) const {
    std::vector<std::string> flags = {"--no-catalog", "--run-dir", at("run")};
    flags.insert(flags.end(), more.begin(), more.end());
    return run_command(testing_support::on_recipe(
        "train", "nam52-tiny.yaml",
        {"model.depth=1", "train.batch=1", "train.sequence=16", "train.threads=1", "train.steps=4", "train.log_every=2",
         "checkpoint.every=2", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs/errors.md]"},
        flags));
  }

  std::vector<std::filesystem::path> event_files() const {
    std::vector<std::filesystem::path> files;
    for (const std::filesystem::path& file : base::list_folder(folder_ / "run"))
      if (has(file.filename().string(), "tfevents")) files.push_back(file);
    return files;
  }

  /// Of the events that have it, by step.
  static std::vector<std::pair<int64_t, float>> scalars(const std::filesystem::path& file, const std::string& tag) {
    std::vector<std::pair<int64_t, float>> values;
    for (const ReadEvent& event : testing_support::read_events(base::read_file(file)))
      if (event.scalars.contains(tag)) values.emplace_back(event.step, event.scalars.at(tag));
    return values;
  }

  std::vector<std::pair<int64_t, float>> logged_losses() const {
    std::vector<std::pair<int64_t, float>> values;
    const train::StepLog log = train::read_log(folder_ / "run" / "log.jsonl");
    for (const train::StepReport& report : log.reports)
      values.emplace_back(report.step, static_cast<float>(report.loss.value()));
    return values;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(RunsExportTest, EventFilesAndCsvHaveTheNumbersOfTheLog) {
  const CommandResult trained = train({"--tensorboard"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  ASSERT_EQ(event_files().size(), 1U);
  ASSERT_EQ(logged_losses().size(), 3U) << "steps 0, 2 and 3";
  EXPECT_EQ(scalars(event_files()[0], "train/loss"), logged_losses());
  EXPECT_EQ(scalars(event_files()[0], "speed/step_seconds").size(), 4U) << "every step";

  const CommandResult exported =
      run_command({"runs", "export", at("run"), "--csv", at("log.csv"), "--tensorboard", at("events"), "--json"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const Json json = Json::parse(exported.out);
  EXPECT_EQ(json.at("logged_steps"), 3);
  EXPECT_EQ(scalars(json.at("tensorboard").get<std::string>(), "train/loss"), logged_losses());
  EXPECT_TRUE(has(json.at("tensorboard").get<std::string>(), "events/run/")) << "named as the run";
  EXPECT_EQ(testing_support::count_of(base::read_file(at("log.csv")), "\r\n"), 4U);
  EXPECT_TRUE(has(run_command({"runs", "export", at("run"), "--csv", at("log.csv")}).out, "3 logged steps"));
}

TEST_F(RunsExportTest, ARunThatGoesBackSaysFromWhichStepOn) {
  ASSERT_EQ(train({"--tensorboard"}).status, 0);
  const std::string checkpoint = at("run/checkpoints/step-00000002");
  ASSERT_EQ(run_command({"train", "--resume", checkpoint, "--no-catalog", "--tensorboard"}).status, 0);
  ASSERT_EQ(event_files().size(), 2U);
  size_t starts_at_two = 0;
  for (const std::filesystem::path& file : event_files()) {
    const std::vector<ReadEvent> events = testing_support::read_events(base::read_file(file));
    ASSERT_GE(events.size(), 2U);
    if (events[1].session_status == 1 && events[1].step == 2) ++starts_at_two;
  }
  EXPECT_EQ(starts_at_two, 1U);
}

TEST_F(RunsExportTest, WhatCannotBeExportedIsNamed) {
  const auto expect = [](const std::vector<std::string>& words, const char* code) {
    const CommandResult result = run_command(words);
    EXPECT_NE(result.status, 0) << code;
    EXPECT_TRUE(has(result.err, std::string("error ") + code)) << result.err;
  };
  expect({"runs", "export", at("none"), "--csv", at("log.csv")}, "E1206");
  expect({"runs", "export", at("run")}, "E1007");
  expect({"runs", "export", at("run"), "--csv"}, "E1007");
  expect({"runs", "export", at("run"), "--csv", ""}, "E3001");
  base::make_folder(folder_ / "run");
  base::write_file_atomically(folder_ / "run" / "recipe.yaml", "name: tiny\n");
  expect({"runs", "export", at("run"), "--csv", at("none/log.csv")}, "E3001");
  expect({"runs", "export", at("run"), "--tensorboard", at("run/recipe.yaml")}, "E3001");
  EXPECT_EQ(run_command({"runs", "export", at("run"), "--csv", at("log.csv")}).status, 0) << "nothing logged yet";
  EXPECT_EQ(testing_support::count_of(base::read_file(at("log.csv")), "\r\n"), 1U);
}

TEST_F(RunsExportTest, APortThatIsTakenEndsALaunchBeforeItBegins) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const CommandResult refused = train({"--metrics-port", std::to_string(ntohs(address.sin_port))});
  ::close(listener);
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "error E3004")) << refused.err;
  EXPECT_FALSE(base::exists(folder_ / "run"));
  EXPECT_TRUE(has(train({"--metrics-port", "65536"}).err, "error E1007"));
}

TEST_F(RunsExportTest, ATrainingSaysWhereItsMetricsAreAndEnds) {
  const CommandResult trained = train({"--metrics-port", "0"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(has(trained.err, "metrics    http://127.0.0.1:")) << trained.err;
}

}  // namespace
}  // namespace megacpp::cli
