// SPDX-License-Identifier: Apache-2.0
// A clock that goes backwards, between runs and in the middle of one: the time of day is for people only, so nothing is
// overwritten, nothing is lost, and what was started last is still the latest.
#include <gtest/gtest.h>

#include <time.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace megacpp {
namespace {

std::atomic<time_t> clock_seconds{0};  // since 1970, of the next answer; 0: the system's own
std::atomic<time_t> clock_loss{0};     // what each answer takes from the next

/// What time() answers as long as it lives.
class ClockOfTest {
 public:
  explicit ClockOfTest(time_t seconds, time_t loss = 0) {
    clock_seconds = seconds;
    clock_loss = loss;
  }
  ~ClockOfTest() { clock_seconds = 0; }
  ClockOfTest(const ClockOfTest&) = delete;
  ClockOfTest& operator=(const ClockOfTest&) = delete;
};

}  // namespace
}  // namespace megacpp

/// In the place of the C library's, for all of this program.
extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  time_t seconds = now.tv_sec;
  if (megacpp::clock_seconds != 0) seconds = megacpp::clock_seconds.fetch_sub(megacpp::clock_loss);
  if (out != nullptr) *out = seconds;
  return seconds;
}

namespace megacpp {
namespace {

constexpr time_t kNoon = 1794830400;  // 2026-11-16T12:00:00Z
constexpr time_t kHour = 3600;

class ClockTest : public testing::Test {
 protected:
  /// Two steps in a run directory of the program's own choice, which is returned.
  static std::filesystem::path start_run(time_t at) {
    const ClockOfTest clock(at);
    const testing_support::CommandResult started = testing_support::run_command(testing_support::on_recipe(
        "train", "nam52-tiny.yaml",
        {"model.depth=1", "train.batch=1", "train.sequence=16", "train.steps=2", "train.threads=1", "train.log_every=1",
         "checkpoint.every=1", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"},
        {"--json"}));
    EXPECT_EQ(started.status, 0) << started.err;
    return base::Json::parse(started.out).at("run_directory").get<std::string>();
  }
  /// Goes on for one step while every question is answered with an hour less than the one before.
  static base::Json resume_run(const std::string& named) {
    const ClockOfTest clock(kNoon - 48 * kHour, kHour);
    const testing_support::CommandResult resumed =
        testing_support::run_command({"train", "--resume", named, "--set", "train.steps=3", "--json"});
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    return base::Json::parse(resumed.out);
  }
  /// Its lines in order, none lost; seconds are those of a clock that only goes forward.
  static void expect_log(const std::filesystem::path& run, int64_t steps) {
    std::ifstream log(run / "log.jsonl");
    int64_t step = 0;
    for (std::string line; std::getline(log, line); ++step) {
      const base::Json json = base::Json::parse(line);
      EXPECT_EQ(json.at("step"), step) << run;
      EXPECT_GE(json.at("seconds").get<double>(), 0) << run;
    }
    EXPECT_EQ(step, steps) << run;
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable runs_{"MEGACPP_RUNS", (folder_ / "runs").string()};
  const testing_support::Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
};

TEST_F(ClockTest, AClockThatGoesBackwardsLosesNoRunAndTheLastStartedIsTheLatest) {
  const std::filesystem::path noon = start_run(kNoon), day_before = start_run(kNoon - 24 * kHour),
                              noon_again = start_run(kNoon);
  EXPECT_TRUE(noon.string().ends_with("-20261116T120000Z")) << noon;
  EXPECT_TRUE(day_before.string().ends_with("-20261115T120000Z")) << day_before;
  EXPECT_EQ(noon_again, noon.string() + "-2");

  EXPECT_EQ(std::filesystem::canonical(resume_run("latest").at("run_directory").get<std::string>()),
            std::filesystem::canonical(noon_again));
  EXPECT_EQ(resume_run(day_before.string()).at("first_step"), 2);
  expect_log(noon, 2);
  expect_log(day_before, 3);
  expect_log(noon_again, 3);
  for (const auto& run : {day_before, noon_again})
    EXPECT_EQ(std::filesystem::read_symlink(run / "checkpoints" / "latest"), "step-00000003") << run;
  for (const auto& run : {noon, day_before, noon_again})
    EXPECT_EQ(testing_support::run_command({"checkpoint", "verify", run.string()}).status, 0) << run;
  EXPECT_EQ(base::Json::parse(testing_support::run_command({"runs", "list", "--json"}).out).at("runs").size(), 3u);
}

TEST_F(ClockTest, TheCatalogKeepsEveryLaunch) {
  start_run(kNoon);
  start_run(kNoon - kHour);
  const base::Json entries =
      base::Json::parse(testing_support::run_command({"catalog", "list", "--json"}).out).at("entries");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries.at(0).at("fits"), 2);
}

}  // namespace
}  // namespace megacpp
