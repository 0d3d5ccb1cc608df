// SPDX-License-Identifier: Apache-2.0
// Every transport when something goes wrong: nobody waits forever, and the message says who, where and why. A test
// program includes this once and says for which transports: INSTANTIATE_TEST_SUITE_P(..., FailureTest, ...).
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "megacpp/machine/collectives/transport.h"
#include "tests/support/errors.h"
#include "tests/support/first_chips.h"
#include "tests/support/transports.h"

namespace megacpp::testing_support::failures {

using base::Code;
using collectives::Call;
using collectives::Communicator;
using collectives::Group;
using collectives::kHostThread;
using collectives::Kind;
using collectives::kMaxInFlight;
using collectives::Reduction;
using collectives::Ticket;
using collectives::WorldOptions;
using std::chrono::milliseconds;

// Zeros in memory of the transport that is tested.
class Floats {
 public:
  explicit Floats(int64_t count)
      : bytes_(testing::WithParamInterface<TransportRig>::GetParam().allocate(static_cast<size_t>(count) *
                                                                              sizeof(float))) {
    std::fill_n(bytes_.get(), static_cast<size_t>(count) * sizeof(float), std::byte{0});
  }
  void* data() const { return bytes_.get(); }

 private:
  Memory bytes_;
};

// A call of one f32 part with buffers that are large enough for any kind and any transport.
struct Buffered {
  Call call;
  Floats in, out, workspace;

  Buffered(Kind kind, const Group* group, int64_t elements, std::string where)
      : in(elements),
        out(elements * (group ? group->size() : 1)),
        workspace(elements + 64 * (group ? group->size() : 1)) {
    call = {.kind = kind, .group = group, .parts = {{.in = in.data(), .out = out.data(), .shape = {elements}}}};
    call.workspace = workspace.data();
    call.where = std::move(where);
  }
};

inline std::string text_of(const std::optional<base::Error>& error) { return error ? error->what() : "no error"; }

inline void expect_words(const std::optional<base::Error>& error, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(text_of(error).find(word), std::string::npos) << word << " in " << text_of(error);
}

inline int64_t count(const Outcomes& outcomes, Code code) {
  return std::ranges::count_if(outcomes, [code](const auto& error) { return error && error->code() == code; });
}

class FailureTest : public testing::TestWithParam<TransportRig> {
 protected:
  void SetUp() override {
    if (!GetParam().why_not.empty()) GTEST_SKIP() << GetParam().why_not;
  }
  Outcomes run(const WorldOptions& options, const ChipBody& body) {
    return run_on(GetParam().transport, options, body);
  }
};

TEST_P(FailureTest, AFailedChipStopsAllOthersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcomes outcomes = run({.chips = 4}, [](Communicator& c) {
    Buffered sum(Kind::all_reduce, &c.create_group(first_chips(4)), 100, "block03.sum");
    if (c.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(50));
      base::raise(Code::E3001, {.where = "checkpoint", .got = "disk full"});
    }
    if (c.rank() == 1) {
      const Floats nothing(1);
      c.run({.kind = Kind::recv, .peer = 0, .parts = {{.out = nothing.data(), .shape = {1}}}, .where = "block03.recv"},
            kHostThread);
    } else {
      c.run(sum.call, kHostThread);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(outcomes[2]->code(), Code::E3001);
  EXPECT_EQ(count(outcomes, Code::E3101), 3);
  expect_words(outcomes[0], {"chip 0, block03.sum", "chip 2 failed", "disk full"});
  expect_words(outcomes[1], {"chip 1, block03.recv", "chip 2 failed", "disk full"});
}

TEST_P(FailureTest, LaterCallsLearnOfTheFirstFailure) {
  run({.chips = 2}, [](Communicator& c) {
    Buffered sum(Kind::all_reduce, &c.create_group(first_chips(2)), 8, "late");
    if (c.rank() == 0) {
      c.abort("out of memory");
      c.abort("second");
    } else {
      error_of([&] { c.run(sum.call, kHostThread); });
    }
    for (int i = 0; i < 2; ++i) {
      const base::Problem problem = problem_of(Code::E3101, [&] { c.start(sum.call, kHostThread); });
      EXPECT_EQ(problem.got, "chip 0 failed: out of memory");
    }
  });
}

// Each chip's buffers go as soon as it learns of the failure: none may still be read. The sanitizers see it.
TEST_P(FailureTest, NobodyReadsTheBuffersOfAChipThatHasGone) {
  for (int round = 0; round < 10; ++round) {
    const Outcomes outcomes = run({.chips = 4}, [round](Communicator& c) {
      const Group& group = c.create_group(first_chips(4));
      for (int step = 0;; ++step) {
        const Buffered gather(Kind::all_gather, &group, 40000, "gather"), sum(Kind::all_reduce, &group, 40000, "sum");
        const Ticket first = c.start(gather.call, kHostThread), second = c.start(sum.call, kHostThread);
        if (step == 3 && c.rank() == round % 4) {
          std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
          c.abort("gone");
          return;
        }
        c.finish(first, kHostThread);
        c.finish(second, kHostThread);
      }
    });
    EXPECT_EQ(count(outcomes, Code::E3101), 3);
  }
}

TEST_P(FailureTest, AWaitTooLongNamesTheMissingChipsAndTheNode) {
  const Outcomes outcomes = run({.chips = 4, .wait_limit = milliseconds(250)}, [](Communicator& c) {
    Buffered gather(Kind::all_gather, &c.create_group(first_chips(4)), 10, "block05.gather");
    c.run(gather.call, kHostThread);  // all have begun
    if (c.rank() == 1 || c.rank() == 3) std::this_thread::sleep_for(milliseconds(600));
    c.run(gather.call, kHostThread);
  });
  EXPECT_EQ(count(outcomes, Code::E3102), 1);
  EXPECT_EQ(count(outcomes, Code::E3101), 3);
  for (const auto& error : outcomes)
    expect_words(error, {"block05.gather", "waited 0.25 s for chips 1, 3", "chip 1 waits for nobody"});
}

TEST_P(FailureTest, AMessageThatNeverComesNamesItsSender) {
  const Outcomes outcomes = run({.chips = 2, .wait_limit = milliseconds(100)}, [](Communicator& c) {
    const Floats result(3);
    if (c.rank() == 1)
      c.run(
          {.kind = Kind::recv, .peer = 0, .tag = 4, .parts = {{.out = result.data(), .shape = {3}}}, .where = "stage1"},
          kHostThread);
  });
  EXPECT_FALSE(outcomes[0]);
  expect_words(outcomes[1], {"E3102", "chip 1, stage1", "for chip 0", "tag 4"});
}

TEST_P(FailureTest, MembersThatDisagreeAreBothNamed) {
  struct Case {
    const char* name;
    void (*spoil)(Call&);
  };
  constexpr std::array kCases = {
      Case{"kind", [](Call& call) { call.kind = Kind::permute; }},
      Case{"size", [](Call& call) { call.parts[0].shape = {4}; }},
      Case{"parts", [](Call& call) { call.parts.push_back(call.parts[0]); }},
      Case{"dtype", [](Call& call) { call.dtype = ir::DType::i32; }},
      Case{"reduction", [](Call& call) { call.reduction = Reduction::max; }},
      Case{"node", [](Call& call) { call.where = "block09"; }},
  };
  for (const Case& spoiled : kCases) {
    const Outcomes outcomes = run({.chips = 3}, [&](Communicator& c) {
      Buffered sum(Kind::all_reduce, &c.create_group(first_chips(3)), 8, "block08");
      if (c.rank() == 1) spoiled.spoil(sum.call);
      c.run(sum.call, kHostThread);
    });
    EXPECT_GE(count(outcomes, Code::E9001), 1) << spoiled.name;
    EXPECT_EQ(count(outcomes, Code::E9001) + count(outcomes, Code::E3101), 3) << spoiled.name;
    for (const auto& error : outcomes) expect_words(error, {"chip 1", "block08", "wanted"});
  }
}

TEST_P(FailureTest, AMessageOfAnotherSizeIsADefect) {
  const Outcomes outcomes = run({.chips = 2}, [](Communicator& c) {
    const Floats data(8);
    if (c.rank() == 0)
      c.run({.kind = Kind::send, .peer = 1, .parts = {{.in = data.data(), .shape = {8}}}, .where = "stage0.out"},
            kHostThread);
    else
      c.run({.kind = Kind::recv, .peer = 0, .parts = {{.out = data.data(), .shape = {2, 4}}}, .where = "stage1.in"},
            kHostThread);
  });
  expect_words(outcomes[0], {"E3101", "stage0.out", "stage1.in"});
  expect_words(outcomes[1], {"E9001", "stage0.out", "f32[8]", "stage1.in", "f32[2,4]"});
}

TEST_P(FailureTest, CallsThatMeanNothingAreRefusedWhenStarted) {
  run({.chips = 2}, [](Communicator& c) {
    const Group& group = c.create_group(first_chips(2));
    const auto expect_refused = [&](void (*spoil)(Call&), const char* why) {
      Buffered buffered(Kind::reduce_scatter, &group, 8, "node");
      spoil(buffered.call);
      const base::Problem problem = problem_of(Code::E9001, [&] { c.start(buffered.call, kHostThread); });
      EXPECT_NE(problem.got.find(why), std::string::npos) << problem.got;
    };
    expect_refused([](Call& call) { call.parts[0].shape = {7}; }, "evenly");
    expect_refused([](Call& call) { call.parts[0].dim = 1; }, "no such dimension");
    expect_refused([](Call& call) { call.parts[0].in = nullptr; }, "no operand");
    expect_refused([](Call& call) { call.parts[0].out = nullptr; }, "no result buffer");
    expect_refused([](Call& call) { call.dtype = ir::DType::pred; }, "pred has no sum");
    expect_refused([](Call& call) { call.group = nullptr; }, "no group");
    expect_refused(
        [](Call& call) {
          call.kind = Kind::send;
          call.peer = 2;
        },
        "no such chip");
    problem_of(Code::E9001, [&] { c.finish({.number = 77}, kHostThread); });
    for (const std::vector<int64_t>& members : {first_chips(3), {c.rank(), c.rank()}, {1 - c.rank()}, {}})
      problem_of(Code::E9001, [&] { c.create_group(members); });
  });
}

TEST_P(FailureTest, MoreCallsThanPromisedAreRefused) {
  run({.chips = 1}, [](Communicator& c) {
    Buffered gather(Kind::all_gather, &c.create_group({0}), 1, "gather");
    Buffered send(Kind::send, nullptr, 1, "send");
    for (const Call* call : {&gather.call, &send.call}) {
      for (int64_t i = 0; i < kMaxInFlight; ++i) c.start(*call, kHostThread);
      problem_of(Code::E9001, [&] { c.start(*call, kHostThread); });
    }
  });
}

TEST_P(FailureTest, WaitingSleeps) {
  run({.chips = 2}, [](Communicator& c) {
    Buffered sum(Kind::all_reduce, &c.create_group(first_chips(2)), 10, "sum");
    if (c.rank() == 0) std::this_thread::sleep_for(milliseconds(300));
    const auto busy_ms = [] {
      timespec time = {};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return time.tv_sec * 1000 + time.tv_nsec / 1000000;
    };
    const auto begin = busy_ms();
    c.run(sum.call, kHostThread);
    EXPECT_LT(busy_ms() - begin, 100);
  });
}

}  // namespace megacpp::testing_support::failures
