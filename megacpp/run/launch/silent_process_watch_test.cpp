// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/silent_process_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>

namespace megacpp::launch {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kFar(20);  // for what is certain to come

/// A run whose successor is asked for by the test: nobody waits for a clock.
class SilentProcessWatchTest : public testing::Test {
 protected:
  SilentProcessWatch::Options options() {
    return {.has_stopped =
                [this] {
                  ++looks_;
                  return is_stopped_.load();
                },
            .silent_successor =
                [this](milliseconds limit) {
                  ++questions_;
                  limit_ = limit;
                  asked_.set_value();
                  std::optional<std::string> found = answer_.get_future().get();
                  return found;
                },
            .say =
                [this](const std::string& process) {
                  said_ += process + ";";
                  spoken_.set_value();
                },
            .look_every = milliseconds(1),
            .answer_limit = milliseconds(7)};
  }
  static bool comes(std::promise<void>& promise) {
    return promise.get_future().wait_for(kFar) == std::future_status::ready;
  }

  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> looks_ = 0;
  std::atomic<int> questions_ = 0;
  milliseconds limit_{};
  std::string said_;
  std::promise<void> asked_, spoken_;
  std::promise<std::optional<std::string>> answer_;
};

TEST_F(SilentProcessWatchTest, WhoGivesNoSignIsNamedOnceTheRunIsToStop) {
  SilentProcessWatch watch(options());
  while (looks_ < 3) std::this_thread::yield();
  EXPECT_EQ(questions_, 0) << "nobody is asked while the run goes on";
  is_stopped_ = true;
  ASSERT_TRUE(comes(asked_));
  EXPECT_EQ(limit_, milliseconds(7));
  answer_.set_value("process 2 on node8 (chip 2)");
  ASSERT_TRUE(comes(spoken_));
  EXPECT_EQ(said_, "process 2 on node8 (chip 2);");
}

TEST_F(SilentProcessWatchTest, NothingIsSaidWhereTheSuccessorAnswers) {
  is_stopped_ = true;
  answer_.set_value(std::nullopt);
  {
    SilentProcessWatch watch(options());
    ASSERT_TRUE(comes(asked_));
  }
  EXPECT_EQ(questions_, 1) << "it is asked once";
  EXPECT_EQ(said_, "");
}

// A run that has stopped in good order while its successor was asked: that one may be gone as well.
TEST_F(SilentProcessWatchTest, NothingIsSaidOnceTheRunHasEnded) {
  is_stopped_ = true;
  auto watch = std::make_optional<SilentProcessWatch>(options());
  ASSERT_TRUE(comes(asked_));
  std::thread answer([this] {
    std::this_thread::sleep_for(milliseconds(50));  // the watch is ending by then
    answer_.set_value("process 2");
  });
  watch.reset();
  answer.join();
  EXPECT_EQ(said_, "");
}

TEST_F(SilentProcessWatchTest, ItEndsAtOnceWithARunThatIsNotStopped) {
  const auto begin = std::chrono::steady_clock::now();
  SilentProcessWatch::Options own = options();
  own.look_every = std::chrono::duration_cast<milliseconds>(kFar);
  {
    SilentProcessWatch watch(std::move(own));
    while (looks_ < 1) std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kFar / 2);
  EXPECT_EQ(questions_, 0);
}

}  // namespace
}  // namespace megacpp::launch
