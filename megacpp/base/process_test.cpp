// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/process.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace megacpp::base {
namespace {

TEST(ProcessTest, BothStreamsAndTheStatusComeBack) {
  const ProgramEnd end = run_program({.words = {"sh", "-c", "echo out; echo err >&2; exit 3"}});
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.output, "out\nerr\n");
}

TEST(ProcessTest, WordsPassThroughNoShell) {
  EXPECT_EQ(run_program({.words = {"printf", "%s|", "a b", "$HOME", "*"}}).output, "a b|$HOME|*|");
}

TEST(ProcessTest, VariablesAreAddedAndReplaced) {
  ::setenv("MEGACPP_PROCESS_TEST", "old", 1);
  const std::vector<std::string> words = {"sh", "-c", "echo $MEGACPP_PROCESS_TEST"};
  EXPECT_EQ(run_program({.words = words}).output, "old\n");
  EXPECT_EQ(run_program({.words = words, .variables = {{"MEGACPP_PROCESS_TEST", "new"}}}).output, "new\n");
  ::unsetenv("MEGACPP_PROCESS_TEST");
}

TEST(ProcessTest, AMissingProgramAndASignalAreStatuses) {
  const ProgramEnd missing = run_program({.words = {"no-such-program-of-megacpp"}});
  EXPECT_EQ(missing.status, 127);
  EXPECT_FALSE(missing.was_started);
  EXPECT_TRUE(run_program({.words = {"sh", "-c", "exit 127"}}).was_started);
  EXPECT_NE(missing.output.find("No such file"), std::string::npos) << missing.output;
  EXPECT_EQ(run_program({.words = {"sh", "-c", "kill -TERM $$"}}).status, 128 + SIGTERM);
}

TEST(ProcessTest, AProgramMayWriteWhereWeDo) {
  const auto shared = [](const std::string& script) {
    return run_program({.words = {"sh", "-c", script}, .streams = Streams::shared, .interrupts = Interrupts::caller});
  };
  EXPECT_EQ(shared("exit 3").status, 3);
  EXPECT_EQ(shared("kill -KILL $$").status, 128 + SIGKILL);
  EXPECT_EQ(shared("exit 0").output, "");
  EXPECT_EQ(run_program({.words = {"no-such-program-of-megacpp"}, .streams = Streams::shared}).status, 127);
  const ProgramEnd stopped =
      run_program({.words = {"sleep", "60"}, .streams = Streams::shared, .should_stop = [] { return true; }});
  EXPECT_EQ(stopped.status, 128 + SIGTERM);
}

TEST(ProcessTest, OneThatIsOverdueIsEnded) {
  const ProgramEnd end = run_program({.words = {"sh", "-c", "echo a; sleep 60"},
                                      .interrupts = Interrupts::caller,
                                      .is_overdue = [](Children) { return true; }});
  EXPECT_EQ(end.status, 128 + SIGTERM);
  EXPECT_EQ(end.output, "a\n");
  const ProgramEnd deaf = run_program({.words = {"sh", "-c", "trap '' TERM; while true; do sleep 60; done"},
                                       .interrupts = Interrupts::caller,
                                       .is_overdue = [](Children) { return true; },
                                       .kill_after = std::chrono::seconds(0)});
  EXPECT_EQ(deaf.status, 128 + SIGKILL);
}

TEST(ProcessTest, ItIsSeenWhatBecameOfTheProgramsOfAProgram) {
  const auto seen = [](const std::string& script) {
    Children last = Children::none;
    run_program({.words = {"sh", "-c", script}, .is_overdue = [&](Children children) {
                   last = children;
                   return true;
                 }});
    return last;
  };
  EXPECT_EQ(seen("sleep 0.2 >/dev/null 2>&1 & exec sleep 60"), Children::ended);
  EXPECT_EQ(seen("sleep 2 >/dev/null 2>&1 & exec sleep 60"), Children::living);
}

TEST(ProcessTest, AnInterruptEndsTheProgramAndNotTheCaller) {
  const ProgramEnd end = run_program({.words = {"sh", "-c", "kill -INT $PPID; kill -INT $$; echo unreached"}});
  EXPECT_EQ(end.status, 128 + SIGINT);
  EXPECT_EQ(end.output, "");
}

TEST(ProcessTest, LongOutputArrivesWholeAndSilenceTicks) {
  const ProgramEnd much = run_program({.words = {"sh", "-c", "head -c 300000 /dev/zero"}});
  EXPECT_EQ(much.output.size(), 300000U);
  int ticks = 0;
  run_program({.words = {"sleep", "1.5"}, .variables = {}, .on_tick = [&] { ++ticks; }});
  EXPECT_EQ(ticks, 1);
}

TEST(ProcessTest, OneThatIsToStopGetsASignalHoweverMuchItPrints) {
  int ticks = 0;
  const ProgramEnd end = run_program({.words = {"sh", "-c", "while true; do echo x; sleep 0.1; done"},
                                      .on_tick = [&] { ++ticks; },
                                      .should_stop = [] { return true; }});
  EXPECT_EQ(end.status, 128 + SIGTERM);
  EXPECT_EQ(ticks, 1);
}

}  // namespace
}  // namespace megacpp::base
