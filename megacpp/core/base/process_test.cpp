// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/stop_signals.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

/// The process whose number a program has written into the file; 0: not yet.
pid_t written_pid(const std::filesystem::path& file) {
  std::ifstream stream(file);
  pid_t pid = 0;
  std::string end;
  return stream >> pid >> end ? pid : 0;  // the second word: the first is whole
}

pid_t await_pid(const std::filesystem::path& file) {
  for (int i = 0; i < 2'000 && written_pid(file) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return written_pid(file);
}

/// Whether it runs; one that has ended may still have a number.
bool is_living(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z" && state != "X";
}

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

TEST(ProcessTest, OneThatClosesItsStreamsAndGoesOnIsStoppedAndEndedAlike) {
  const std::vector<std::string> words = {"sh", "-c", "echo a; exec sleep 60 >&- 2>&-"};
  const auto begin = std::chrono::steady_clock::now();
  const ProgramEnd stopped =
      run_program({.words = words, .should_stop = [&] {
                     return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(300);
                   }});
  EXPECT_EQ(stopped.status, 128 + SIGTERM);
  EXPECT_EQ(stopped.output, "a\n");
  EXPECT_EQ(run_program({.words = words, .is_overdue = [](Children) { return true; }}).status, 128 + SIGTERM);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// As mpirun has its processes: what is in another group is the launcher's to end.
TEST(ProcessTest, WhatLeavesTheGroupOfALauncherIsLeftToIt) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "pid", signals = folder / "signals";
  const std::string program = "n=0; trap \"echo t >> " + signals.string() + "; n=1\" TERM; echo $$ . > " +
                              file.string() + "; while [ $n = 0 ]; do sleep 0.02; done";
  const std::string launcher = "trap 'kill -TERM $(cut -d\" \" -f1 " + file.string() + ")' TERM; setsid sh -c '" +
                               program + "' & wait $!; wait $!";
  run_program({.words = {"sh", "-c", launcher},
               .streams = Streams::shared,
               .interrupts = Interrupts::caller,
               .should_stop = [&] { return written_pid(file) != 0; }});
  std::ifstream stream(signals);
  std::string first, second;
  stream >> first >> second;
  EXPECT_EQ(first, "t") << "the launcher hands it on";
  EXPECT_EQ(second, "");
  EXPECT_FALSE(is_living(written_pid(file))) << "the launcher has waited for it";
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

TEST(ProcessTest, OneThatIsToStopGetsASignalAtOnceHoweverMuchItPrints) {
  int ticks = 0;
  const ProgramEnd end = run_program({.words = {"sh", "-c", "while true; do echo x; sleep 0.1; done"},
                                      .on_tick = [&] { ++ticks; },
                                      .should_stop = [] { return true; }});
  EXPECT_EQ(end.status, 128 + SIGTERM);
  EXPECT_EQ(ticks, 0) << "a second is too late: the next signal may come before";
}

TEST(ProcessTest, AStopReachesWhatALauncherHasStartedAndWaitsForIt) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "pid";
  // The shell ends by the signal; what it has started needs a moment to end in good order.
  const std::string script = "sh -c 'trap \"sleep 0.1; exit 0\" TERM; echo $$ . > " + file.string() +
                             "; while true; do sleep 0.05; done' & wait";
  run_program(
      {.words = {"sh", "-c", script}, .streams = Streams::shared, .interrupts = Interrupts::caller, .should_stop = [&] {
         return written_pid(file) != 0;
       }});
  EXPECT_FALSE(is_living(written_pid(file)));
}

// One that hands signals on: its program would stop at once at a second one.
TEST(ProcessTest, BehindALauncherThatHandsSignalsOnAProgramGetsOne) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "pid", signals = folder / "signals";
  const std::string program = "n=0; trap \"echo t >> " + signals.string() + "; n=1\" TERM; echo $$ . > " +
                              file.string() + "; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2";
  const std::string launcher = "sh -c '" + program + "' & c=$!; trap 'kill -TERM $c' TERM; wait $c; wait $c";
  run_program({.words = {"sh", "-c", launcher},
               .streams = Streams::shared,
               .interrupts = Interrupts::caller,
               .should_stop = [&] { return written_pid(file) != 0; }});
  std::ifstream stream(signals);
  std::string first, second;
  stream >> first >> second;
  EXPECT_EQ(first, "t");
  EXPECT_EQ(second, "");
  EXPECT_FALSE(is_living(written_pid(file)));
}

TEST(ProcessTest, ASecondRequestLeavesNoProgramBehind) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path file = folder / "pid";
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    handle_stop_signals();
    const StopRequest stop;
    run_program({.words = {"sh", "-c", "trap '' TERM; echo $$ . > " + file.string() + "; exec sleep 60"},
                 .streams = Streams::shared,
                 .interrupts = Interrupts::caller,
                 .should_stop = [&stop] { return stop.has_come(); },
                 .kill_after = std::chrono::seconds(0)});
    ::_exit(0);
  }
  const pid_t program = await_pid(file);
  EXPECT_NE(program, 0);
  ::kill(supervisor, SIGINT);
  int status = 0;
  while (::waitpid(supervisor, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(kOneRequest / 4);
    ::kill(supervisor, SIGTERM);
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kInterruptedStatus);
  EXPECT_FALSE(is_living(program));
  if (program != 0 && is_living(program)) ::kill(program, SIGKILL);
}

// As a parent that never asks how its children end leaves it.
TEST(ProcessTest, AFailureIsSeenWhereSignalsOfChildrenAreIgnored) {
  for (const Streams streams : {Streams::kept, Streams::shared}) {
    const auto before = ::signal(SIGCHLD, SIG_IGN);
    EXPECT_EQ(run_program({.words = {"sh", "-c", "exit 3"}, .streams = streams}).status, 3);
    ::signal(SIGCHLD, before);
  }
}

TEST(ProcessTest, OtherChildrenOfThisProcessAreLeftToWhoStartedThem) {
  const pid_t other = ::fork();
  if (other == 0) ::_exit(7);
  EXPECT_EQ(run_program({.words = {"sh", "-c", "exit 3"}, .streams = Streams::shared}).status, 3);
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace megacpp::base
