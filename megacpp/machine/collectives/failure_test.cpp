// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/failure.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace megacpp::collectives {
namespace {

using base::Code;

/// That another chip has, which is told so.
base::Error following(const std::string& reason) {
  return {Code::E3101, other_chip_failed(0, "step 3", {1, reason}, "")};
}

TEST(FailureTest, WhoStopsBecauseOfAnotherEndsAsThatOne) {
  for (const Code code : {Code::E1008, Code::E2004, Code::E3001, Code::E9001}) {
    const base::Error own(code, {.where = "chip 1", .got = "it"});
    const base::Error other = following(own.what());
    EXPECT_EQ(other.code(), Code::E3101);
    EXPECT_EQ(other.exit_status(), own.exit_status()) << base::code_name(code);
    EXPECT_EQ(following(other.what()).exit_status(), own.exit_status()) << "told on by a third";
  }
}

TEST(FailureTest, ErrorsThatAreNoneOfOursAreToldAsCommandsReportThem) {
  EXPECT_EQ(reason_of(std::runtime_error("a library")), "E9001 a library");
  EXPECT_EQ(cause_in(reason_of(std::bad_alloc())), Code::E2005);
  const base::Error own(Code::E3001, {.where = "run", .got = "disk full"});
  EXPECT_EQ(reason_of(static_cast<const std::exception&>(own)), own.what());
}

// Of an agreement, whose words tell of processes and not of a chip that failed.
TEST(FailureTest, WhatCausedAnErrorIsToldOnWithIt) {
  const base::Error own(Code::E3101, {.where = "data", .got = "process 1: E1008 corpus.txt", .cause = Code::E1008});
  EXPECT_EQ(cause_in(reason_of(own)), Code::E1008) << reason_of(own);
  EXPECT_EQ(following(reason_of(own)).exit_status(), own.exit_status());
  EXPECT_EQ(reason_of(following("E1008 it")), following("E1008 it").what()) << "its words have it";
}

TEST(FailureTest, AHostThatSeesItsDeviceAlonePromisesNothingOfOtherChips) {
  Call call;
  call.where = "the end of what it has enqueued";
  const base::Problem problem =
      device_took_too_long(0, call, {.limit = std::chrono::milliseconds(1500), .chips = {1, 3}});
  EXPECT_EQ(problem.where, "chip 0, the end of what it has enqueued");
  EXPECT_EQ(problem.got, "its device has not ended its work for 1.5 s: it computes, or waits for chips 1, 3");
  EXPECT_NE(problem.next.find("a step must take less than train.wait_limit"), std::string::npos) << problem.next;
  EXPECT_EQ(problem.next.find("waits for nobody"), std::string::npos) << problem.next;
}

TEST(FailureTest, AReasonWithoutACodeIsOneOfTheMachine) {
  EXPECT_EQ(cause_in("process 1 is gone (connection reset)"), std::nullopt);
  EXPECT_EQ(cause_in(""), std::nullopt);
  EXPECT_EQ(cause_in("waited 5 ms; see E2001"), std::nullopt) << "not its own";
  EXPECT_EQ(following("its thread is gone").exit_status(), base::exit_status(base::ErrorClass::environment));
}

}  // namespace
}  // namespace megacpp::collectives
