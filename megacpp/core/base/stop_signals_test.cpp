// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "megacpp/core/base/error.h"

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

TEST(StopSignalsTest, TheFirstIsNotedAndThoseThatRepeatItDoNothing) {
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        {
          const StopRequest stop;
          if (stop.has_come()) std::_Exit(1);
          for (const int signal : {SIGTERM, SIGTERM, SIGINT, SIGHUP, SIGUSR1}) std::raise(signal);
          const HeldEnd programs;
          if (!stop.has_come() || programs.is_due()) std::_Exit(2);
        }
        std::raise(SIGTERM);  // the work has ended in the meantime, and its last words are still to be written
        std::_Exit(0);
      },
      kWentOn, "");
}

TEST(StopSignalsTest, ASecondRequestEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        begin();
        handle_stop_signals();
        const StopRequest stop;
        std::raise(SIGTERM);
        std::this_thread::sleep_for(kOneRequest);
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
          std::this_thread::sleep_for(kOneRequest);
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
