// SPDX-License-Identifier: Apache-2.0
// The engine by itself, with a mover that only records what it is asked for, and fails where a test wants it to. What
// calls move is in communicator_conformance_test, how they fail on every transport in communicator_failure_test.
#include "megacpp/machine/collectives/engine/call_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <thread>

#include "megacpp/core/base/error.h"
#include "tests/support/errors.h"

namespace megacpp::collectives {
namespace {

using base::Code;
using std::chrono::milliseconds;
using testing_support::problem_of;

/// Calls are complete as soon as they begin, unless a test holds them back.
class RecordingMover final : public Mover {
 public:
  void open(GroupCalls& group, int64_t chip) override {
    if (fails_to_open) base::raise(Code::E3104, {.where = "mover", .got = "no stream for " + chip_text(chip)});
    opened.push_back(group.number());
  }
  void mark(InFlight& call, Stream) override { seen.push_back("mark by " + chip_text(call.chip)); }
  void begin(EngineLock&, InFlight& last) override {
    seen.push_back("begin " + std::to_string(last.sequence) + " by " + chip_text(last.chip));
    if (fails) base::raise(Code::E3104, {.where = "mover", .got = "no stream"});
    for (const int64_t member : last.group->members())
      engine->at(member).in_flight(*last.group, last.sequence).is_moved = !holds;
  }
  void begin_message(InFlight& send, InFlight& recv, int64_t) override {
    seen.push_back(send.call->where + " to " + recv.call->where);
    send.is_moved = recv.is_moved = true;
  }
  void begin_remote(EngineLock&, InFlight& message) override { seen.push_back("remote " + message.call->where); }
  void join(EngineLock&, InFlight& call, Stream) override { seen.push_back("join by " + chip_text(call.chip)); }
  void forget(GroupCalls&, int64_t sequence) override { seen.push_back("forget " + std::to_string(sequence)); }
  void settle(int64_t chip) override { seen.push_back("settle chip " + std::to_string(chip)); }
  bool advance(EngineLock& lock, InFlight& call) override { return move && move(lock, call); }

  CallEngine* engine = nullptr;
  bool fails = false, fails_to_open = false, holds = false;
  std::vector<int64_t> opened;  // numbers of groups
  std::function<bool(EngineLock& lock, InFlight& call)> move;
  std::vector<std::string> seen;
};

/// Two processes, in which the other has always failed first: this one is not asked.
class SoonerElsewhere final : public OtherProcesses {
 public:
  explicit SoonerElsewhere(CallEngine& engine) : engine_(engine) {}
  void propose(const Failure&) override { engine_.decide({3, "E2004 it came first"}); }
  std::string place_of(int64_t) const override { return " in process 1"; }
  void ask(EngineLock&, const InFlight&, Waited& waited) override {
    waited.chips.push_back(3);
    waited.states += "; chip 3 waits for nobody";
  }

 private:
  CallEngine& engine_;
};

class CallEngineTest : public ::testing::Test {
 protected:
  CallEngineTest() {
    mover_.engine = &engine_;
    engine_.attach(mover_);
  }

  Call collective(int64_t chip, const std::vector<int64_t>& members) {
    Call call;
    call.kind = Kind::all_reduce;
    call.group = &engine_.at(chip).create_group(members);
    call.parts = {{.in = in_.data(), .out = out_.data(), .shape = {4}}};
    call.where = "a";
    return call;
  }
  Call message(Kind kind, int64_t peer, int64_t tag, const std::string& where) {
    Call call;
    call.kind = kind;
    call.peer = peer;
    call.tag = tag;
    call.parts = {{.in = in_.data(), .out = out_.data(), .shape = {4}}};
    call.where = where;
    return call;
  }
  Ticket start(int64_t chip, const Call& call) { return engine_.at(chip).start(call, kHostThread); }
  void finish(int64_t chip, Ticket ticket) { engine_.at(chip).finish(ticket, kHostThread); }

  std::vector<float> in_ = std::vector<float>(4), out_ = std::vector<float>(4);
  CallEngine engine_{{.chips = 4, .local = {0, 1, 2}, .wait_limit = milliseconds(50)}};
  RecordingMover mover_;
};

TEST_F(CallEngineTest, WhoPostsLastBeginsACallForAll) {
  const Call a = collective(0, {0, 1}), b = collective(1, {0, 1});
  const Ticket first = start(0, a);
  EXPECT_EQ(mover_.seen, std::vector<std::string>{"mark by chip 0"});
  const Ticket second = start(1, b);
  finish(1, second);
  finish(0, first);
  EXPECT_EQ(mover_.seen, (std::vector<std::string>{"mark by chip 0", "mark by chip 1", "begin 0 by chip 1",
                                                   "join by chip 1", "join by chip 0", "forget 0"}));
}

TEST_F(CallEngineTest, CallsAreCountedByGroupAndFinishedInAnyOrder) {
  const Call pair = collective(0, {0, 1}), pair1 = collective(1, {0, 1});
  const Call alone = collective(0, {0});
  const Ticket first = start(0, pair), own = start(0, alone), second = start(0, pair);
  finish(0, own);
  start(1, pair1);
  start(1, pair1);
  finish(0, second);
  finish(0, first);
  EXPECT_EQ(std::ranges::count(mover_.seen, "begin 0 by chip 0"), 1);
  EXPECT_EQ(std::ranges::count(mover_.seen, "begin 0 by chip 1"), 1);
  EXPECT_EQ(std::ranges::count(mover_.seen, "begin 1 by chip 1"), 1);
}

TEST_F(CallEngineTest, SendsAndReceivesFindEachOtherByTagTheOldestFirst) {
  const Call old_send = message(Kind::send, 1, 7, "old"), new_send = message(Kind::send, 1, 7, "new"),
             other_tag = message(Kind::send, 1, 8, "eight");
  const Call recv7 = message(Kind::recv, 0, 7, "first"), recv7b = message(Kind::recv, 0, 7, "second"),
             recv8 = message(Kind::recv, 0, 8, "third");
  start(1, recv8);
  start(0, old_send);
  start(0, other_tag);
  start(0, new_send);
  start(1, recv7);
  start(1, recv7b);
  std::erase_if(mover_.seen, [](const std::string& text) { return text.starts_with("mark"); });
  EXPECT_EQ(mover_.seen, (std::vector<std::string>{"eight to third", "old to first", "new to second"}));
}

TEST_F(CallEngineTest, MessagesToChipsElsewhereAreTheMoversOwn) {
  start(0, message(Kind::send, 3, 7, "far"));
  EXPECT_EQ(mover_.seen.back(), "remote far");
}

TEST_F(CallEngineTest, MembersThatDisagreeAreToldWhatTheOtherCalls) {
  const Call sum = collective(0, {0, 1});
  Call max = collective(1, {0, 1});
  max.reduction = Reduction::max;
  const Ticket ticket = start(0, sum);
  EXPECT_NE(problem_of(Code::E9001, [&] { start(1, max); }).wanted.find("chip 0"), std::string::npos);
  EXPECT_NE(problem_of(Code::E3101, [&] { finish(0, ticket); }).got.find("chip 1 failed"), std::string::npos);
}

TEST_F(CallEngineTest, AMessageThatDiffersIsItsReceiversToReport) {
  const Call send = message(Kind::send, 1, 7, "send");
  Call recv = message(Kind::recv, 0, 7, "recv");
  recv.parts[0].shape = {2};
  const Ticket sent = start(0, send), received = start(1, recv);
  problem_of(Code::E9001, [&] { finish(1, received); });
  problem_of(Code::E3101, [&] { finish(0, sent); });
}

TEST_F(CallEngineTest, AWaitBeyondTheLimitNamesWhoHasNotCome) {
  const Call a = collective(0, {0, 1, 2}), b = collective(1, {0, 1, 2});
  const Ticket first = start(0, a), second = start(1, b);
  const base::Problem problem = problem_of(Code::E3102, [&] { finish(0, first); });
  EXPECT_NE(problem.got.find("for chip 2; chip 2 waits for nobody"), std::string::npos) << problem.got;
  problem_of(Code::E3101, [&] { finish(1, second); });
}

TEST_F(CallEngineTest, WhatGoesOnIsNotTooLong) {
  const Call alone = collective(0, {0});
  mover_.holds = true;
  const auto begin = CallEngine::Clock::now();
  mover_.move = [&](EngineLock& lock, InFlight& call) {
    engine_.without_lock(lock, [] { std::this_thread::sleep_for(milliseconds(30)); });
    call.is_moved = CallEngine::Clock::now() - begin > milliseconds(120);
    return true;
  };
  finish(0, start(0, alone));
  EXPECT_GT(CallEngine::Clock::now() - begin, engine_.wait_limit());
}

TEST_F(CallEngineTest, TheFirstReasonCounts) {
  engine_.at(1).abort("the first");
  engine_.at(2).abort("the second");
  const Call alone = collective(0, {0});
  const base::Problem problem = problem_of(Code::E3101, [&] { start(0, alone); });
  EXPECT_EQ(problem.got, "chip 1 failed: the first");
  EXPECT_EQ(mover_.seen, (std::vector<std::string>{"settle chip 1", "settle chip 2"}));
}

TEST_F(CallEngineTest, AMoverThatFailsLeavesNobodyWaiting) {
  const Call a = collective(0, {0, 1}), b = collective(1, {0, 1});
  const Ticket ticket = start(0, a);
  mover_.fails = true;
  const base::Problem problem = problem_of(Code::E3104, [&] { start(1, b); });
  engine_.at(1).abort(problem.got);
  EXPECT_EQ(problem_of(Code::E3101, [&] { finish(0, ticket); }).got, "chip 1 failed: no stream");
}

TEST_F(CallEngineTest, AGroupThatDidNotOpenIsTriedAgainByTheNextMember) {
  mover_.fails_to_open = true;
  EXPECT_EQ(problem_of(Code::E3104, [&] { collective(0, {0, 1}); }).got, "no stream for chip 0");
  EXPECT_EQ(problem_of(Code::E3104, [&] { collective(1, {0, 1}); }).got, "no stream for chip 1");
  mover_.fails_to_open = false;
  collective(1, {1, 2});
  collective(0, {0, 1});
  EXPECT_EQ(mover_.opened, (std::vector<int64_t>{0, 1}));
}

TEST_F(CallEngineTest, AnAbortReturnsWhenNobodyReadsBuffersAnyMore) {
  const Call alone = collective(0, {0});
  mover_.holds = true;
  std::promise<void> reads, may_end;
  std::atomic<bool> has_read = false;
  mover_.move = [&](EngineLock& lock, InFlight&) {
    engine_.without_lock(lock, [&] {
      reads.set_value();
      may_end.get_future().wait();
      has_read = true;
    });
    return true;
  };
  auto finishing =
      std::async(std::launch::async, [&] { problem_of(Code::E3101, [&] { finish(0, start(0, alone)); }); });
  reads.get_future().wait();
  auto aborting = std::async(std::launch::async, [&] {
    engine_.at(1).abort("it has to go");
    return has_read.load();
  });
  EXPECT_EQ(aborting.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_TRUE(engine_.has_failed()) << "others hear of it meanwhile";
  may_end.set_value();
  EXPECT_TRUE(aborting.get());
  finishing.get();
}

TEST_F(CallEngineTest, NoMoreCallsAreInFlightThanPromised) {
  const Call call = collective(0, {0, 1}), send = message(Kind::send, 1, 7, "send");
  engine_.at(0).reserve_messages(2);
  for (int64_t i = 0; i < kMaxInFlight; ++i) start(0, call);
  for (int64_t i = 0; i < kMaxInFlight + 2; ++i) start(0, send);
  problem_of(Code::E9001, [&] { start(0, call); });
  problem_of(Code::E9001, [&] { start(0, send); });
}

TEST_F(CallEngineTest, OfFailuresInSeveralProcessesOneCounts) {
  SoonerElsewhere others(engine_);
  engine_.attach(mover_, &others);
  const Call a = collective(0, {0, 1});
  const Ticket ticket = start(0, a);
  const base::Problem problem = problem_of(Code::E3101, [&] { finish(0, ticket); });
  EXPECT_EQ(problem.got, "chip 3 failed: E2004 it came first");
  EXPECT_NE(problem.next.find("chip 3 in process 1"), std::string::npos);
  EXPECT_EQ(problem.cause, Code::E2004);
}

TEST_F(CallEngineTest, AFailureOfAnotherWorldIsSaidInItsWords) {
  {
    const EngineLock lock(engine_.mutex);
    engine_.decide(base::Problem{.where = "chip 0, there", .got = "chip 9 failed: gone", .next = "look at chip 9"});
  }
  const base::Problem problem = problem_of(Code::E3101, [&] { engine_.require_alive(2, "here"); });
  EXPECT_EQ(problem.where, "chip 2, here");
  EXPECT_EQ(problem.got, "chip 9 failed: gone");
}

}  // namespace
}  // namespace megacpp::collectives
