// SPDX-License-Identifier: Apache-2.0
// The steps of all members of a group on the host, messages copied from one to the other, against what the transport
// of the CPU backend leaves: every kind and dtype, bit for bit, and nothing written beyond the workspace.
#include "megacpp/machine/cuda/exchange_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/collectives/inproc/move.h"
#include "megacpp/machine/cuda/kernels/collective_body.h"
#include "megacpp/machine/cuda/movement_table.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::cuda {
namespace {

uint16_t bits16(float number) {
  return static_cast<uint16_t>(ir::bits_of(ir::DType::bf16, static_cast<double>(number)));
}

using collectives::Call;
using collectives::Group;
using collectives::Kind;
using collectives::Part;
using collectives::Reduction;
using ir::DType;

// The steps as they come, to be done later.
class RecordedSteps final : public ExchangeSteps {
 public:
  // A launch, or a batch of messages.
  struct Step {
    std::vector<CollectiveParams> tables = {};  // one: a launch
    std::vector<Message> sends = {}, receives = {};
  };

  void move(const CollectiveParams& table) override { steps.emplace_back().tables.push_back(table); }
  void begin_messages() override { steps.emplace_back(); }
  void send(const Message& message) override { steps.back().sends.push_back(message); }
  void receive(const Message& message) override { steps.back().receives.push_back(message); }
  void end_messages() override {}

  std::vector<Step> steps;
};

void launch_on_host(const CollectiveParams& table) {
  for (uint32_t block = 0; block < blocks_of(table); ++block)
    for (uint32_t thread = 0; thread < kCollectiveThreads; ++thread)
      table.combine == Combine::copy ? collective::copy_as_thread(table, block, thread)
                                     : collective::combine_as_thread(table, block, thread);
}

using MessageBytes = std::vector<std::byte>;

// All members do their launches up to their next messages, then these are delivered, and so on.
void run_members(const std::vector<RecordedSteps>& members) {
  std::vector<size_t> next(members.size(), 0);
  while (true) {
    std::vector<const RecordedSteps::Step*> batches(members.size(), nullptr);
    for (size_t m = 0; m < members.size(); ++m) {
      while (next[m] < members[m].steps.size() && !members[m].steps[next[m]].tables.empty())
        launch_on_host(members[m].steps[next[m]++].tables.front());
      if (next[m] < members[m].steps.size()) batches[m] = &members[m].steps[next[m]++];
    }
    if (batches.front() == nullptr) break;
    std::map<std::pair<int64_t, int64_t>, std::deque<MessageBytes>> on_the_way;  // by from and to
    for (size_t m = 0; m < members.size(); ++m)
      for (const ExchangeSteps::Message& sent : batches[m]->sends) {
        const std::byte* const data = reinterpret_cast<const std::byte*>(sent.address);
        on_the_way[{static_cast<int64_t>(m), sent.member}].emplace_back(data, data + sent.bytes);
      }
    for (size_t m = 0; m < members.size(); ++m)
      for (const ExchangeSteps::Message& received : batches[m]->receives) {
        std::deque<MessageBytes>& coming = on_the_way[{received.member, static_cast<int64_t>(m)}];
        ASSERT_FALSE(coming.empty());
        ASSERT_EQ(static_cast<int64_t>(coming.front().size()), received.bytes);
        std::memcpy(reinterpret_cast<void*>(received.address), coming.front().data(), coming.front().size());
        coming.pop_front();
      }
    for (const auto& [pair, left] : on_the_way) ASSERT_TRUE(left.empty());
  }
}

// One member's buffers for both ways; vectors that never move.
struct MemberBuffers {
  std::vector<std::vector<uint32_t>> in, ours, theirs;  // by part, in words so that they are aligned
  std::vector<uint32_t> workspace;
};

constexpr uint32_t kGuardWord = 0xA5A5A5A5;

std::vector<uint32_t> words_of(int64_t bytes) {
  return std::vector<uint32_t>(static_cast<size_t>(bytes + 3) / 4 + 1, kGuardWord);
}

void fill_operand_words(std::vector<uint32_t>& words, DType dtype, uint32_t seed) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    uint32_t h = (seed * 7919 + static_cast<uint32_t>(i)) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    const float number = static_cast<float>(static_cast<int32_t>(h)) / 3e8f;
    const uint32_t half = bits16(number), other = bits16(1 / (number + 20));
    if (dtype == DType::f32) std::memcpy(&words[i], &number, sizeof number);
    if (dtype == DType::bf16) words[i] = half << 16 | other;
    if (dtype == DType::i32) words[i] = h;
    if (dtype == DType::pred) words[i] = h & 0x01010101u;
  }
}

void exchange_and_compare(const Call& call, int64_t n) {
  std::deque<Group> groups;
  std::vector<MemberBuffers> buffers(static_cast<size_t>(n));
  std::vector<Call> ours, theirs;
  const int64_t wanted = exchange_workspace(call, n), width = ir::dtype_bytes(call.dtype);
  for (int64_t index = 0; index < n; ++index) {
    groups.push_back({.members = std::vector<int64_t>(static_cast<size_t>(n)), .index = index});
    MemberBuffers& own = buffers[static_cast<size_t>(index)];
    own.workspace = words_of(wanted);
    ours.push_back(call);
    ours.back().group = &groups.back();
    theirs.push_back(ours.back());
    for (size_t p = 0; p < call.parts.size(); ++p) {
      own.in.push_back(words_of(ir::num_elements(call.parts[p].shape) * width));
      fill_operand_words(own.in.back(), call.dtype, static_cast<uint32_t>(index * 31 + static_cast<int64_t>(p) + 1));
      own.ours.push_back(words_of(ir::num_elements(collectives::result_shape(call.kind, call.parts[p], n)) * width));
      own.theirs.push_back(own.ours.back());
      ours.back().parts[p].in = theirs.back().parts[p].in = own.in.back().data();
      ours.back().parts[p].out = own.ours.back().data();
      theirs.back().parts[p].out = own.theirs.back().data();
    }
    ours.back().workspace = own.workspace.data();
  }
  std::vector<RecordedSteps> steps(static_cast<size_t>(n));
  std::vector<Address> scratch(static_cast<size_t>(n));
  for (size_t m = 0; m < steps.size(); ++m) run_exchange(ours[m], scratch, steps[m]);
  ASSERT_NO_FATAL_FAILURE(run_members(steps)) << to_string(call);
  std::vector<const Call*> calls;
  for (const Call& each : theirs) calls.push_back(&each);
  std::vector<const void*> room(2 * calls.size());
  for (int64_t step = 1; step <= collectives::steps_of(call.kind); ++step)
    for (int64_t index = 0; index < n; ++index)
      collectives::move_data({.calls = calls, .index = index, .pointers = room}, step);
  for (const MemberBuffers& own : buffers) {
    for (size_t p = 0; p < call.parts.size(); ++p)
      ASSERT_EQ(own.ours[p], own.theirs[p]) << to_string(call) << " of " << n << ", part " << p;
    ASSERT_EQ(own.workspace.back(), kGuardWord) << to_string(call);
  }
}

Part piece_along(ir::Shape shape, int64_t dim, int64_t concat = 0) {
  return {.shape = std::move(shape), .dim = dim, .concat_dim = concat};
}

class ExchangeStepsTest : public testing::TestWithParam<Kind> {};

TEST_P(ExchangeStepsTest, LeavesWhatTheTransportOfTheCpuLeaves) {
  for (const int64_t n : {1, 2, 3, 5})
    for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::pred})
      for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
        if (dtype == DType::pred && reduction == Reduction::sum) continue;
        Call call = {.kind = GetParam(), .dtype = dtype, .reduction = reduction, .parts = {}, .where = "steps"};
        if (call.kind == Kind::permute) call.shift = 1 - n * 2;
        call.parts = {piece_along({n}, 0),
                      piece_along({3, 2 * n, 5}, 1, 2),
                      piece_along({4 * n, 3, 8}, 0, 1),
                      piece_along({2, 3, 4 * n}, 2, 0),
                      piece_along({0, n}, 1),
                      piece_along({n, 77}, 0, 1)};
        exchange_and_compare(call, n);
      }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeStepsTest,
                         testing::Values(Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce, Kind::all_to_all,
                                         Kind::permute),
                         [](const auto& info) { return std::string(collectives::kind_name(info.param)); });

TEST(ExchangeStepsTest, OnlyWhatHasGapsIsPacked) {
  const auto workspace = [](Kind kind, int64_t dim, int64_t concat) {
    const Call call = {.kind = kind, .parts = {piece_along({8, 8, 8}, dim, concat)}, .where = "x"};
    return exchange_workspace(call, 2);
  };
  constexpr int64_t kBytes = 512 * 4;
  EXPECT_EQ(workspace(Kind::all_gather, 0, 0), 0);
  EXPECT_EQ(workspace(Kind::all_gather, 1, 0), 2 * kBytes) << "the result";
  EXPECT_EQ(workspace(Kind::reduce_scatter, 0, 0), kBytes) << "terms";
  EXPECT_EQ(workspace(Kind::reduce_scatter, 2, 0), 2 * kBytes) << "terms, and the operand";
  EXPECT_EQ(workspace(Kind::all_reduce, 0, 0), kBytes) << "terms";
  EXPECT_EQ(workspace(Kind::all_to_all, 0, 1), kBytes) << "the result";
  EXPECT_EQ(workspace(Kind::all_to_all, 1, 0), kBytes) << "the operand";
  EXPECT_EQ(workspace(Kind::all_to_all, 1, 2), 2 * kBytes) << "both";
  EXPECT_EQ(workspace(Kind::permute, 0, 0), 0);
}

TEST(ExchangeStepsTest, ASumOfMoreThanOneLaunchAddsUpIsRefusedWhenItIsPlanned) {
  const auto plan = [](Kind kind, int64_t members) {
    const Call call = {.kind = kind, .parts = {piece_along({members}, 0)}, .where = "x"};
    return exchange_workspace(call, members);
  };
  plan(Kind::all_reduce, kMaxExchangeMembers);
  plan(Kind::all_gather, kMaxExchangeMembers + 1);
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter}) {
    const base::Problem problem =
        testing_support::problem_of(base::Code::E1505, [&] { plan(kind, kMaxExchangeMembers + 1); });
    EXPECT_NE(problem.got.find("140 chips"), std::string::npos) << problem.got;
    EXPECT_NE(problem.next.find("split the axis"), std::string::npos) << problem.next;
  }
}

TEST(ExchangeStepsTest, AMessageIsSentFromWhereItIs) {
  const std::array<float, 4> from = {1, 2, 3, 4};
  std::array<float, 4> to = {};
  const Call send = {.kind = Kind::send, .parts = {{.in = from.data(), .shape = {4}}}, .where = "out"};
  const Call recv = {.kind = Kind::recv, .parts = {{.out = to.data(), .shape = {4}}}, .where = "in"};
  std::vector<RecordedSteps> ends(2);
  run_exchange(send, {}, ends[0]);
  run_exchange(recv, {}, ends[1]);
  run_members(ends);
  EXPECT_EQ(from, to);
}

// As many bytes leave each member as in a ring.
TEST(ExchangeStepsTest, SendsNoMoreThanARing) {
  const auto sent = [](Kind kind) {
    const Group group = {.members = {0, 1, 2, 3}, .index = 2};
    std::vector<float> in(4096), out(4 * 4096), workspace(2 * 4096);
    const Call call = {.kind = kind,
                       .group = &group,
                       .parts = {{.in = in.data(), .out = out.data(), .shape = {4096}}},
                       .workspace = workspace.data(),
                       .where = "x"};
    RecordedSteps steps;
    std::vector<Address> scratch(4);
    run_exchange(call, scratch, steps);
    int64_t bytes = 0;
    for (const RecordedSteps::Step& step : steps.steps)
      for (const ExchangeSteps::Message& message : step.sends) bytes += message.bytes;
    return bytes;
  };
  constexpr int64_t kBytes = 4096 * 4;
  EXPECT_EQ(sent(Kind::all_gather), 3 * kBytes);
  EXPECT_EQ(sent(Kind::reduce_scatter), kBytes * 3 / 4);
  EXPECT_EQ(sent(Kind::all_reduce), 2 * kBytes * 3 / 4);
  EXPECT_EQ(sent(Kind::all_to_all), kBytes * 3 / 4);
  EXPECT_EQ(sent(Kind::permute), 0) << "by 0 places";
}

}  // namespace
}  // namespace megacpp::runtime::cuda
