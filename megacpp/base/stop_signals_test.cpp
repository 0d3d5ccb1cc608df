// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "megacpp/base/error.h"

namespace megacpp::base {
namespace {

const testing::ExitedWithCode kStopped(kInterruptedStatus);
const testing::ExitedWithCode kWentOn(0);

// Each case runs in a process of its own, with the signals as a shell leaves them.
void begin() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
}

TEST(StopSignalsTest, EachEndsTheProcessWithItsStatusAndNotByTheSignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EXIT(
        {
          begin();
          handle_stop_signals();
          std::raise(signal);
          std::_Exit(0);
        },
        kStopped, "")
        << signal;
}

TEST(StopSignalsTest, TheFirstIsNotedAndTheSecondEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        const StopRequest stop;
        if (stop.has_come()) std::_Exit(1);
        std::raise(SIGTERM);
        std::_Exit(stop.has_come() ? 0 : 1);
      },
      kWentOn, "");
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        const StopRequest stop;
        std::raise(SIGTERM);
        std::raise(SIGINT);
        std::_Exit(0);
      },
      kStopped, "");
}

TEST(StopSignalsTest, AfterARequestTheFirstEndsTheProcessAgain) {
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        { const StopRequest over; }
        std::raise(SIGHUP);
        std::_Exit(0);
      },
      kStopped, "");
}

TEST(StopSignalsTest, AnEndThatIsHeldComesWithTheLastHolder) {
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        const StopRequest stop;
        std::raise(SIGTERM);
        {
          const HeldEnd outer;
          { const HeldEnd inner; }
          if (outer.is_due()) std::_Exit(1);  // the first signal is the request's
          std::raise(SIGINT);
          if (!outer.is_due()) std::_Exit(2);
          { const HeldEnd inner; }
          std::fputs("still here", stderr);
        }
        std::_Exit(0);
      },
      kStopped, "still here");
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        { const HeldEnd over; }
        std::raise(SIGINT);
        std::_Exit(0);
      },
      kStopped, "");
}

TEST(StopSignalsTest, WhatNohupIgnoresStaysIgnored) {
  EXPECT_EXIT(
      {
        begin();
        std::signal(SIGHUP, SIG_IGN);
        handle_stop_signals();
        std::raise(SIGHUP);
        std::_Exit(0);
      },
      kWentOn, "");
}

}  // namespace
}  // namespace megacpp::base
