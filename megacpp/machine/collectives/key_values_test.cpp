// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/key_values.h"

#include <gtest/gtest.h>

#include <array>
#include <barrier>

#include "megacpp/machine/collectives/long_wait.h"
#include "tests/support/errors.h"
#include "tests/support/process_fleet.h"
#include "tests/support/process_worlds.h"

namespace megacpp::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class KeyValuesTest : public testing::Test {
 protected:
  /// body(process, store) in each of three processes.
  template <typename Body>
  void run(const Body& body, milliseconds limit = seconds(60)) {
    processes_.run([&](size_t process) {
      std::shared_ptr<World> world = processes_.transport(process).make({.chips = 3, .wait_limit = seconds(60)});
      KeyValues store(std::move(world), limit);
      body(process, store);
    });
  }

  testing_support::Processes processes_{3};
};

TEST_F(KeyValuesTest, WhatOneProcessPutsAllGet) {
  run([](size_t process, KeyValues& store) {
    store.put("from " + std::to_string(process), std::string("a\0b", 3) + std::to_string(process));
    for (size_t other = 0; other < 3; ++other)
      EXPECT_EQ(store.get("from " + std::to_string(other), seconds(60)),
                std::string("a\0b", 3) + std::to_string(other));
  });
}

TEST_F(KeyValuesTest, AValueMayBeEmptyAndMayChange) {
  run([](size_t process, KeyValues& store) {
    if (process == 0) store.put("empty", "");
    EXPECT_EQ(store.get("empty", seconds(60)), "");
    if (process != 1) return;
    store.put("mine", "1");
    store.put("mine", "2");
    EXPECT_EQ(store.try_get("mine"), "2");
  });
}

TEST_F(KeyValuesTest, AllSettleOnOneValueOfANameThatSeveralPut) {
  for (int round = 0; round < 5; ++round) {
    std::array<std::optional<std::string>, 3> settled;
    run([&](size_t process, KeyValues& store) {
      store.put("shared", std::to_string(process));
      store.put("has put " + std::to_string(process), "");  // behind it: who gets this has that
      for (size_t other = 0; other < 3; ++other)
        EXPECT_TRUE(store.get("has put " + std::to_string(other), seconds(60)).has_value());
      settled.at(process) = store.try_get("shared");
    });
    ASSERT_TRUE(settled[0].has_value());
    EXPECT_EQ(settled[1], settled[0]);
    EXPECT_EQ(settled[2], settled[0]);
  }
}

TEST_F(KeyValuesTest, WhatNobodyPutIsWaitedForNoLongerThanAsked) {
  run([](size_t, KeyValues& store) {
    EXPECT_FALSE(store.try_get("nothing").has_value());
    EXPECT_FALSE(store.get("nothing", milliseconds(20)).has_value());
  });
}

// Each for another's name: nobody is left who could put any.
TEST_F(KeyValuesTest, WhereAllWaitNoneWaitsLongerThanTheLimitOfTheStore) {
  std::barrier all_know(3);
  run(
      [&](size_t process, KeyValues& store) {
        if (process == 1) store.put("there", "1");
        EXPECT_EQ(store.get("there", seconds(60)), "1");
        const auto start = std::chrono::steady_clock::now();
        EXPECT_FALSE(store.get("from " + std::to_string(process), seconds(60)).has_value());
        EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
        const std::string progress = store.progress();
        EXPECT_EQ(progress.find("1 values, the last 'there'; process 0 waits for "), 0u) << progress;
        EXPECT_NE(progress.find(", process 2 for "), std::string::npos) << progress;
        all_know.arrive_and_wait();
      },
      milliseconds(300));
}

TEST_F(KeyValuesTest, WhoIsAtWorkIsWaitedFor) {
  std::barrier all_have_it(3);  // before any ends its store, which has a limit too
  run(
      [&](size_t process, KeyValues& store) {
        if (process == 2) {
          std::this_thread::sleep_for(milliseconds(200));
          store.put("late", "1");
        }
        EXPECT_EQ(store.get("late", seconds(60)), "1");
        all_have_it.arrive_and_wait();
      },
      milliseconds(50));
}

TEST_F(KeyValuesTest, OfALongWaitThereIsWord) {
  std::mutex mutex;
  std::string said;
  const LongWaitListener before = listen_to_long_waits([&](const LongWait& wait) {
    const std::lock_guard lock(mutex);
    said = wait.whom;
  });
  std::barrier all_have_it(3);
  run(
      [&](size_t process, KeyValues& store) {
        if (process == 2) {
          std::this_thread::sleep_for(milliseconds(200));
          store.put("late", "1");
        }
        EXPECT_EQ(store.get("late", seconds(60)), "1");
        all_have_it.arrive_and_wait();
      },
      milliseconds(50));
  listen_to_long_waits(before);
  EXPECT_EQ(said, "the value 'late', which no process has put");
}

// What comes to the second process is cut off.
class CuttingWorld final : public World {
 public:
  explicit CuttingWorld(std::shared_ptr<World> world) : world_(std::move(world)) {}
  const Properties& properties() const override { return world_->properties(); }
  int64_t chips() const override { return world_->chips(); }
  const std::vector<int64_t>& local_chips() const override { return world_->local_chips(); }
  Communicator& communicator(int64_t chip) override { return world_->communicator(chip); }
  void abort(int64_t chip, const std::string& reason) override { world_->abort(chip, reason); }
  bool has_failed() override { return world_->has_failed(); }
  int64_t process() const override { return world_->process(); }

 protected:
  std::vector<std::string> gather(const std::string& own) override {
    std::vector<std::string> all = world_->share("inner", own);
    if (process() == 1) all.back().pop_back();
    return all;
  }

 private:
  std::shared_ptr<World> world_;  // with nobody
};

TEST_F(KeyValuesTest, AProcessWhoseStoreFailsEndsThoseOfTheOthers) {
  processes_.run([&](size_t process) {
    std::shared_ptr<World> world = processes_.transport(process).make({.chips = 3, .wait_limit = seconds(60)});
    KeyValues store(std::make_shared<CuttingWorld>(std::move(world)), seconds(60));
    const auto start = std::chrono::steady_clock::now();
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3101, [&] { store.get("never", seconds(60)); });
    EXPECT_NE(problem.got.find("cut off"), std::string::npos) << process << ": " << problem.got;
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  });
}

TEST_F(KeyValuesTest, AProcessThatFailsEndsTheWaitsOfAll) {
  run([](size_t process, KeyValues& store) {
    if (process == 2) return store.abort("the disk is full");
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3101, [&] { store.get("never", seconds(60)); });
    EXPECT_NE(problem.got.find("the disk is full"), std::string::npos) << problem.got;
    EXPECT_FALSE(store.failure().empty());
    testing_support::problem_of(base::Code::E3101, [&] { store.put("late", "1"); });
  });
}

// The first does not end its store while the others wait for it to.
TEST_F(KeyValuesTest, OneThatDoesNotEndIsNotWaitedForForever) {
  run(
      [](size_t process, KeyValues& store) {
        if (process == 0) testing_support::problem_of(base::Code::E3101, [&] { store.get("never", seconds(60)); });
      },
      milliseconds(50));
}

TEST(KeyValuesOverSocketsTest, AProcessThatIsGoneIsSeenByTheOthers) {
  auto worlds =
      testing_support::process_worlds({.properties = {.name = "sockets"}, .owners = {0, 1}, .wait_limit = seconds(60)});
  KeyValues store(std::move(worlds[0]));
  worlds[1].reset();
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3101, [&] { store.get("never", seconds(60)); });
  EXPECT_NE(problem.got.find("process 1 on host1"), std::string::npos) << problem.got;
}

}  // namespace
}  // namespace megacpp::collectives
