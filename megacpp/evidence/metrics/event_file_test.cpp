// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/event_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <limits>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "tests/support/errors.h"
#include "tests/support/read_events.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using testing_support::read_events;
using testing_support::ReadEvent;
using testing_support::whole_report;

/// No file of this process may grow beyond so many bytes, as long as it lives: a disk that is full.
class SmallFiles {
 public:
  explicit SmallFiles(int64_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = static_cast<rlim_t>(bytes);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class EventFileTest : public testing::Test {
 protected:
  const testing_support::TemporaryFolder folder_;
};

TEST_F(EventFileTest, WhatIsAddedIsThereAtOnce) {
  EventFile file(folder_.path(), 18);
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents.")) << file.path();
  ASSERT_TRUE(file.add(whole_report()));
  const std::vector<ReadEvent> events = read_events(base::read_file(file.path()));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[1].step, 18);
  EXPECT_EQ(events[4].wall_time, *whole_report().logged_at);
  EXPECT_EQ(events[4].scalars.at("train/loss"), 2.5F);
}

TEST_F(EventFileTest, FilesOfOneSecondAreSeveral) {
  const EventFile first(folder_.path(), 0), second(folder_.path(), 0);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(base::list_folder(folder_.path()).size(), 2U);
}

TEST_F(EventFileTest, AFullDiskLeavesWholeRecords) {
  EventFile file(folder_.path(), 0);
  ASSERT_TRUE(file.add(whole_report()));
  const int64_t bytes = base::file_bytes(file.path());
  {
    const SmallFiles full(bytes + 40);
    EXPECT_FALSE(file.add(whole_report()));
  }
  EXPECT_EQ(base::file_bytes(file.path()), bytes);
  ASSERT_TRUE(file.add(whole_report())) << "there is room again";
  EXPECT_EQ(read_events(base::read_file(file.path())).size(), 2U + 2 * 3);
}

TEST_F(EventFileTest, AFolderThatIsNotThereIsNamed) {
  testing_support::problem_of(base::Code::E3001, [&] { EventFile(folder_ / "none", 0); });
}

TEST_F(EventFileTest, TheFileOfALogIsReplacedByTheNextExport) {
  const std::filesystem::path file = write_event_file(folder_ / "run", {whole_report()});
  EXPECT_EQ(file.filename(), "events.out.tfevents.1794830400.megacpp");
  EXPECT_EQ(read_events(base::read_file(file)).size(), 5U);
  train::StepReport next = whole_report();
  next.step += 2;
  EXPECT_EQ(write_event_file(folder_ / "run", {whole_report(), next}), file);
  EXPECT_EQ(read_events(base::read_file(file)).size(), 8U);
  EXPECT_EQ(base::list_folder(folder_ / "run").size(), 1U);
}

TEST_F(EventFileTest, EventFilesOfOthersAreNotMixedWithIt) {
  base::write_file_atomically(folder_ / "events.out.tfevents.5.other", "");
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3001, [&] { write_event_file(folder_.path(), {whole_report()}); });
  EXPECT_NE(problem.got.find("events.out.tfevents.5.other"), std::string::npos) << problem.got;
}

TEST_F(EventFileTest, ATimeThatIsNoneNamesNoFile) {
  for (const double time : {1e300, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    train::StepReport report = whole_report();
    report.step = std::numeric_limits<int64_t>::max();
    report.logged_at = time;
    EXPECT_EQ(write_event_file(folder_.path(), {report}).filename(), "events.out.tfevents.0.megacpp");
  }
}

TEST_F(EventFileTest, ALogWithoutTimesCountsItsSeconds) {
  const std::filesystem::path file = write_event_file(
      folder_.path(), {{.step = 0, .steps = 1, .seconds = 0.5}, {.step = 1, .steps = 1, .seconds = 0.25}});
  const std::vector<ReadEvent> events = read_events(base::read_file(file));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2].wall_time, 0.5);
  EXPECT_EQ(events[3].wall_time, 0.75);
}

}  // namespace
}  // namespace megacpp::metrics
