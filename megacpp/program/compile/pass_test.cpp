// SPDX-License-Identifier: Apache-2.0
// What is done around passes: which of them run, what is refused, and that each one's result is looked at.
#include "megacpp/program/compile/pass.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "megacpp/core/base/file.h"
#include "megacpp/program/ops/builder.h"
#include "tests/support/errors.h"

namespace megacpp::compile {
namespace {

using base::Decision;

// One program of one node, and a list of passes that note that they ran.
class PassTest : public testing::Test {
 protected:
  PassTest() {
    ir::Graph graph("one");
    ops::Builder builder(graph);
    graph.add_output({.name = "y", .value = builder.exp(builder.input("x", {ir::DType::f32, {2}}, ir::Role::batch))});
    run_.programs.push_back({.graph = std::move(graph)});
  }

  Pass note(std::string_view name, std::string_view needed = {}) {
    return {.name = name, .does = "notes it", .needed = needed, .run = [this, name](Compilation&) {
              ran_.emplace_back(name);
            }};
  }

  std::vector<Pass> three() {
    std::vector<Pass> passes = {note("first", "the others read it"), note("second"), note("third")};
    passes[2].applies = [](const Compilation&) { return Decision::no("nothing needs it"); };
    return passes;
  }

  base::Problem refusal(const std::string& name) {
    return testing_support::problem_of(base::Code::E1007, [&] { run_passes(three(), {.without = {name}}, run_); });
  }

  const plan::Plan plan_;
  const schedule::Target target_{.name = "none", .runs = {}, .workspace_bytes = {}};
  Compilation run_{.plan = plan_, .target = target_};
  std::vector<std::string> ran_;
};

TEST_F(PassTest, ThoseThatApplyRunInOrderUnderTheirNumbers) {
  run_passes(three(), {}, run_);
  EXPECT_EQ(ran_, (std::vector<std::string>{"first", "second"}));
  ASSERT_EQ(run_.compiled.passes.size(), 2u);
  EXPECT_EQ(run_.compiled.passes[1].name, "02-second");
  EXPECT_EQ(run_.compiled.passes[1].nodes, 2u);
}

TEST_F(PassTest, PassesAndTheirVerificationAreTimedApart) {
  static constexpr double kLong = 0.02;
  const Pass slow{.name = "slow", .does = "waits", .needed = "here", .run = [](Compilation&) {
                    std::this_thread::sleep_for(std::chrono::duration<double>(kLong));
                  }};
  run_passes({slow, note("quick", "here")}, {}, run_);
  const Compiled& compiled = run_.compiled;
  EXPECT_GE(compiled.passes[0].seconds, kLong);
  for (const PassTime& pass : compiled.passes) EXPECT_GT(pass.verify_seconds, 0);
  EXPECT_EQ(compiled.compile_seconds(), compiled.passes[0].seconds + compiled.passes[1].seconds);
  EXPECT_EQ(compiled.verify_seconds(), compiled.passes[0].verify_seconds + compiled.passes[1].verify_seconds);
}

TEST_F(PassTest, AnOptionalOneCanBeSwitchedOff) {
  run_passes(three(), {.without = {"second"}}, run_);
  EXPECT_EQ(ran_, (std::vector<std::string>{"first"}));
}

TEST_F(PassTest, ANameThatIsNoPassIsRefusedWithTheNearest) {
  const base::Problem problem = refusal("secnd");
  EXPECT_EQ(problem.where, "--without secnd");
  EXPECT_EQ(problem.wanted, "one of second");
  EXPECT_EQ(problem.next, "did you mean 'second'?");
}

TEST_F(PassTest, OneThatIsNeededIsRefusedWithTheReason) {
  EXPECT_EQ(refusal("first").got, "a pass that cannot be switched off: the others read it");
}

TEST_F(PassTest, OneThatDoesNotRunIsRefusedWithTheReason) {
  EXPECT_EQ(refusal("third").got, "a pass that does not run here: nothing needs it");
}

TEST_F(PassTest, WhatItLeavesIsVerified) {
  Pass wrong = note("wrong");
  wrong.leaves = ops::Form::fused;  // no pass has turned exp into a fused node
  EXPECT_THROW(run_passes({wrong}, {}, run_), base::Error);
}

// What a pass left and a later one mended is nobody's loss; what is wrong in the end is found.
TEST_F(PassTest, TheResultAloneCanBeVerified) {
  Pass wrong = note("wrong"), mended = note("mended");
  wrong.leaves = ops::Form::fused;
  mended.leaves = ops::Form::built;
  EXPECT_THROW(run_passes({wrong, mended}, {}, run_), base::Error);
  Compilation run{.plan = plan_, .target = target_};
  run.programs.push_back({.graph = run_.programs[0].graph});
  run_passes({wrong, mended}, {.verify = Verify::result}, run);
  EXPECT_EQ(run.compiled.passes[0].verify_seconds, 0);
  EXPECT_GT(run.compiled.passes[1].verify_seconds, 0);
  EXPECT_THROW(run_passes({mended, wrong}, {.verify = Verify::result}, run), base::Error);
}

// Takes a program more, which the last pass plans as so many bytes.
class HoldingPassTest : public PassTest {
 protected:
  std::vector<Pass> passes(int64_t bytes) const {
    return {{.name = "hold",
             .does = "takes a program more",
             .run = [](Compilation& run) { run.programs.push_back(run.programs[0]); },
             .holds_more = [](const Compilation&) { return true; }},
            {.name = "plan", .does = "counts", .needed = "here", .run = [bytes](Compilation& run) {
               const bool holds = run.programs.size() > 1;
               run.compiled.stages.push_back({.programs = std::move(run.programs)});
               run.compiled.stages[0].memory.lower_bound = 1000 + (holds ? bytes : 0);
             }}};
  }

  size_t programs() const { return run_.compiled.stages.at(0).programs.size(); }
};

// So that nothing is copied, and nothing runs twice, for one that finds nothing to hold.
TEST_F(HoldingPassTest, IsAskedBeforeItRuns) {
  for (const bool holds : {true, false}) {
    Compilation run = run_;
    std::vector<Pass> counted = passes(10);
    counted[0].holds_more = [holds](const Compilation& asked) {
      EXPECT_EQ(asked.programs.size(), 1u) << "as they were before it";
      return holds;
    };
    int plans = 0;
    counted[1].run = [&plans, plan = counted[1].run](Compilation& one) {
      ++plans;
      plan(one);
    };
    run_passes(counted, {}, run);
    EXPECT_EQ(plans, holds ? 2 : 1);
    EXPECT_EQ(run.compiled.stages.at(0).programs.size(), 2u) << "it runs";
  }
}

TEST_F(HoldingPassTest, BothListsAreVerified) {
  for (const int64_t bytes : {10, 11}) {
    Compilation run = run_;
    std::vector<Pass> wrong = passes(bytes);
    wrong[1].run = [plan = wrong[1].run](Compilation& one) {
      ir::Graph& graph = one.programs[0].graph;
      if (one.programs.size() == 1) graph.add_output(ir::Output(graph.outputs()[0]));  // a second of that name
      plan(one);
    };
    EXPECT_THROW(run_passes(wrong, {}, run), base::Error);
  }
  Compilation run = run_;
  EXPECT_NO_THROW(run_passes(passes(11), {.verify = Verify::result}, run));
}

TEST_F(HoldingPassTest, StaysWhereAChipNeedsNoMoreForIt) {
  run_passes(passes(10), {}, run_);
  EXPECT_EQ(programs(), 2u) << "a hundredth more is as much";
}

TEST_F(HoldingPassTest, IsUndoneWhereAChipNeedsMoreForIt) {
  run_passes(passes(11), {}, run_);
  EXPECT_EQ(programs(), 1u);
  ASSERT_EQ(run_.compiled.passes.size(), 2u) << "it ran, and the rest of the list counts once";
  EXPECT_EQ(run_.compiled.passes[0].name, "01-hold");
  EXPECT_EQ(run_.compiled.passes[0].nodes, 2u) << "as it left them";
}

TEST_F(HoldingPassTest, DumpsAreOfWhatStays) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("megacpp_pass_test_" + std::to_string(getpid()));
  for (const int64_t bytes : {10, 11}) {
    Compilation run = run_;
    run_passes(passes(bytes), {.dump_dir = folder}, run);
    const std::string one = base::read_file(folder / "02-plan.ir");
    EXPECT_EQ(base::read_file(folder / "01-hold.ir"), one);
    EXPECT_EQ(one.find("graph", 1) != std::string::npos, bytes == 10) << one;
  }
  std::filesystem::remove_all(folder);
}

TEST_F(HoldingPassTest, NoDumpIsLeftOfAPassThatOnlyTheDroppedListRan) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("megacpp_dropped_pass_test_" + std::to_string(getpid()));
  for (const int64_t bytes : {10, 11}) {
    Compilation run = run_;
    std::vector<Pass> list = passes(bytes);
    Pass only = note("only");
    only.applies = [](const Compilation& one) {
      return one.programs.size() > 1 ? Decision::yes() : Decision::no("one program has no use for it");
    };
    list.insert(list.begin() + 1, only);
    run_passes(list, {.dump_dir = folder}, run);
    EXPECT_EQ(std::filesystem::exists(folder / "02-only.ir"), bytes == 10);
    EXPECT_TRUE(std::filesystem::exists(folder / "03-plan.ir"));
  }
  std::filesystem::remove_all(folder);
}

TEST_F(HoldingPassTest, TimeOfWhatWasDroppedIsItsOwn) {
  static constexpr double kLong = 0.02;
  for (const int64_t bytes : {10, 11}) {
    Compilation run = run_;
    std::vector<Pass> slow = passes(bytes);
    slow[1].run = [plan = slow[1].run](Compilation& one) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kLong));
      plan(one);
    };
    run_passes(slow, {}, run);
    EXPECT_GE(run.compiled.passes[0].seconds, kLong) << bytes;
    EXPECT_GE(run.compiled.compile_seconds(), 2 * kLong) << bytes;
  }
}

TEST(PassListTest, NamesAreUniqueAndEveryPassSaysWhatItDoes) {
  std::set<std::string_view> names;
  for (const PassInfo& pass : list_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.does.empty()) << pass.name;
  }
}

}  // namespace
}  // namespace megacpp::compile
