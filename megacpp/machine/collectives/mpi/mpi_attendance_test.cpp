// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_attendance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <stdexcept>

namespace megacpp::collectives {
namespace {

using std::chrono::milliseconds;

class MpiAttendanceTest : public testing::Test {
 protected:
  MpiLaunch launch(int64_t process, int64_t processes = 3) const {
    return {.process = process,
            .processes = processes,
            .launcher = "mpirun of OpenMPI",
            .variables = "",
            .name = name_,
            .processes_here = processes};
  }

  // Of this test's process alone.
  const std::string name_ = "a launch of process " + std::to_string(::getpid());
};

TEST_F(MpiAttendanceTest, ProcessesOfAMachineSeeEachOther) {
  MpiAttendance first(launch(0));
  first.look();
  EXPECT_EQ(first.come(), std::vector<int64_t>{0});
  auto last = std::make_unique<MpiAttendance>(launch(2));
  first.look();
  last->look();
  EXPECT_EQ(first.come(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(last->come(), (std::vector<int64_t>{0, 2}));
  last.reset();
  first.look();
  EXPECT_EQ(first.come(), (std::vector<int64_t>{0, 2})) << "it had come, and has given up";
  MpiAttendance later(launch(1));
  later.look();
  EXPECT_EQ(later.come(), (std::vector<int64_t>{0, 1})) << "nothing is left of it";
}

TEST_F(MpiAttendanceTest, ALaunchWithoutANameSeesNobody) {
  MpiLaunch nameless = launch(0);
  nameless.name.clear();
  MpiAttendance own(nameless);
  own.look();
  EXPECT_EQ(own.come(), std::vector<int64_t>{0});
}

TEST_F(MpiAttendanceTest, TheErrorSaysWhoHasNotCome) {
  const auto got = [](const MpiLaunch& launch, const std::vector<int64_t>& present) {
    const base::Error error = late_error(launch, present, milliseconds(3000));
    EXPECT_EQ(error.code(), base::Code::E3102);
    return error.problem().got;
  };
  EXPECT_EQ(got(launch(0), {0, 2}), "waited 3 s for process 1, which has not come");
  EXPECT_EQ(got(launch(0), {0}), "waited 3 s for processes 1, 2, which have not come");
  EXPECT_NE(got(launch(0, 40), {0}).find("15, 16 and 23 more, which have not come"), std::string::npos);
  EXPECT_NE(got(launch(0), {0, 1, 2}).find("which have come: MPI has not joined them"), std::string::npos);
}

// Each host says what it sees: where one of its own has not come, or that those of others have not.
TEST_F(MpiAttendanceTest, OverHostsTheErrorSaysWhoOfThisOneHasCome) {
  MpiLaunch two_here = launch(0, 4);
  two_here.processes_here = 2;
  EXPECT_EQ(late_error(two_here, {0}, milliseconds(3000)).problem().got,
            "waited 3 s for all 4 processes of the launch: of the 2 of this host only process 0 has come");
  EXPECT_EQ(late_error(two_here, {0, 2}, milliseconds(3000)).problem().got,
            "waited 3 s for all 4 processes of the launch: the 2 of this host have come, others on other hosts have "
            "not");
  two_here.processes_here = 0;
  EXPECT_EQ(late_error(two_here, {0}, milliseconds(1500)).problem().got,
            "waited 1500 ms for all 4 processes of the launch")
      << "the launcher does not say who is here";
}

TEST_F(MpiAttendanceTest, AStartThatDoesNotReturnIsToldWhenTheLimitIsOver) {
  std::promise<void> is_late;
  int looks = 0;
  start_within(
      {.limit = milliseconds(8), .look = [&looks] { ++looks; }, .on_late = [&is_late] { is_late.set_value(); }},
      [&is_late] { is_late.get_future().wait(); });
  EXPECT_GT(looks, 1);
}

TEST_F(MpiAttendanceTest, AStartThatReturnsOrFailsIsNotLate) {
  const StartLimit limit{.limit = std::chrono::hours(1), .look = [] {}, .on_late = [] { FAIL() << "late"; }};
  start_within(limit, [] {});
  EXPECT_THROW(start_within(limit, [] { throw std::runtime_error("no MPI"); }), std::runtime_error);
}

}  // namespace
}  // namespace megacpp::collectives
