// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/world.h"

#include <gtest/gtest.h>

#include "megacpp/machine/collectives/transport.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::collectives {
namespace {

using base::Code;
using testing_support::problem_of;
using testing_support::Processes;

class WorldTest : public testing::TestWithParam<Transport> {};

TEST_P(WorldTest, LocalChipsHaveCommunicators) {
  const auto world = GetParam().make({.chips = 3});
  EXPECT_EQ(world->chips(), 3);
  EXPECT_EQ(world->properties().name, GetParam().properties.name);
  ASSERT_FALSE(world->local_chips().empty());
  EXPECT_TRUE(std::ranges::is_sorted(world->local_chips()));
  for (const int64_t chip : world->local_chips()) {
    EXPECT_EQ(world->communicator(chip).rank(), chip);
    EXPECT_EQ(world->communicator(chip).chips(), 3);
  }
}

TEST_P(WorldTest, TheRecordIsComplete) {
  EXPECT_FALSE(GetParam().properties.name.empty());
  EXPECT_FALSE(GetParam().doc.empty());
  EXPECT_GE(GetParam().workspace_bytes({.kind = Kind::all_reduce, .parts = {{.shape = {8}}}}, 2), 0);
}

TEST_P(WorldTest, AnAbortedWorldAgreesOnNothing) {
  const auto world = GetParam().make({.chips = 2});
  world->agree_same("recipe", std::vector<Field>{{"batch", "8"}});
  EXPECT_EQ(world->share("text", "alone"), std::vector<std::string>{"alone"});
  EXPECT_TRUE(world->is_coordinator());
  EXPECT_TRUE(world->has_all_chips());
  EXPECT_EQ(world->agree_min("bytes", -5), -5);
  EXPECT_FALSE(world->agree_any("failed", false));
  EXPECT_TRUE(world->agree_any("failed", true));
  world->abort(world->local_chips().front(), "out of memory");
  const base::Problem problem = problem_of(Code::E3101, [&] { world->agree_min("bytes", 1); });
  EXPECT_NE(problem.got.find("out of memory"), std::string::npos) << problem.got;
}

INSTANTIATE_TEST_SUITE_P(Transports, WorldTest, testing::ValuesIn(all_transports()),
                         [](const auto& info) { return std::string(info.param.properties.name); });

// What World itself makes of several processes.
class AgreementTest : public testing::Test {
 protected:
  void run(const std::function<void(World& world, size_t process)>& body) {
    processes_.run([&](size_t process) {
      const auto world = processes_.transport(process).make({.chips = 4, .wait_limit = wait_limit_});
      body(*world, process);
    });
  }

  Processes processes_{2};
  std::chrono::milliseconds wait_limit_ = std::chrono::seconds(30);
};

TEST_F(AgreementTest, EveryProcessGetsTheSameAnswer) {
  run([](World& world, size_t process) {
    EXPECT_EQ(world.local_chips(), process == 0 ? (std::vector<int64_t>{0, 1}) : (std::vector<int64_t>{2, 3}));
    for (int64_t round = 0; round < 50; ++round) {
      const auto own = static_cast<int64_t>(process);
      world.agree_same("round", std::vector<Field>{{"number", std::to_string(round)}});
      EXPECT_EQ(world.agree_min("bytes", 10 * round + (round % 2 == 0 ? own : -own)), 10 * round - round % 2);
      EXPECT_EQ(world.agree_any("failed", round == 7 && process == 1), round == 7);
    }
    world.agree_same("bytes with zeros", std::vector<Field>{{std::string("a\0b", 3), std::string("\0:1", 3)}});
    EXPECT_EQ(world.is_coordinator(), process == 0);
    EXPECT_FALSE(world.has_all_chips());
  });
}

TEST_F(AgreementTest, WhatProcessesShareIsInTheirOrder) {
  run([](World& world, size_t process) {
    const std::string own = process == 0 ? std::string("a\0b", 3) : "";
    EXPECT_EQ(world.share("text", own), (std::vector<std::string>{std::string("a\0b", 3), ""}));
  });
}

TEST_F(AgreementTest, WhoDiffersAndInWhichFieldsIsNamedEverywhere) {
  run([](World& world, size_t process) {
    std::vector<Field> fields = {{"model.hidden", "64"}, {"train.batch", process == 0 ? "4" : "2"}};
    if (process == 1) fields.push_back({"train.seed", "7"});
    const base::Problem problem = problem_of(Code::E3103, [&] { world.agree_same("recipe", fields); });
    EXPECT_EQ(problem.where, "recipe");
    EXPECT_EQ(problem.got, "process 1 (chips 2 to 3): train.batch 2, train.seed 7");
    EXPECT_EQ(problem.wanted, "the same as process 0 (chips 0 to 1): train.batch 4, train.seed absent");
  });
}

// However many fields are equal before it.
TEST_F(AgreementTest, ADifferenceBehindManyEqualFieldsIsShown) {
  run([](World& world, size_t process) {
    std::vector<Field> fields;
    for (int64_t i = 0; i < 500; ++i) fields.push_back({"key" + std::to_string(i), "the same"});
    fields.push_back({"last", process == 0 ? "1" : "2"});
    const base::Problem problem = problem_of(Code::E3103, [&] { world.agree_same("recipe", fields); });
    EXPECT_EQ(problem.got, "process 1 (chips 2 to 3): last 2");
    for (size_t i = 0; i < 20; ++i) fields[i].value += process == 0 ? "a" : "b";
    const base::Problem many = problem_of(Code::E3103, [&] { world.agree_same("recipe", fields); });
    EXPECT_NE(many.got.find(" and 13 more fields"), std::string::npos) << many.got;
  });
}

TEST_F(AgreementTest, DifferentSubjectsAreADefect) {
  run([](World& world, size_t process) {
    const base::Problem problem =
        problem_of(Code::E9001, [&] { world.agree_min(process == 0 ? "free memory" : "rung", 1); });
    EXPECT_NE(problem.got.find("process 1 (chips 2 to 3) agrees on 'rung'"), std::string::npos) << problem.got;
  });
}

TEST_F(AgreementTest, AFailedProcessLeavesNobodyWaiting) {
  run([](World& world, size_t process) {
    if (process == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      world.abort(3, "disk full");
    }
    const base::Problem problem = problem_of(Code::E3101, [&] { world.agree_any("failed", false); });
    EXPECT_EQ(problem.got, "chip 3 failed: disk full");
  });
}

TEST_F(AgreementTest, AProcessThatNeverComesEndsTheWait) {
  wait_limit_ = std::chrono::milliseconds(50);
  run([](World& world, size_t process) {
    if (process == 0) problem_of(Code::E3102, [&] { world.agree_any("failed", false); });
  });
}

}  // namespace
}  // namespace megacpp::collectives
