// SPDX-License-Identifier: Apache-2.0
// Calls between streams of virtual chips: whole steps are enqueued and nobody waits for the device before the end.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/handles.h"
#include "tests/device_transports/gpu_rig.h"
#include "tests/support/first_chips.h"

namespace megacpp::testing_support {
namespace {

using collectives::Call;
using collectives::Communicator;
using collectives::Group;
using collectives::Kind;
using collectives::Ticket;
using runtime::cuda::Address;
using runtime::cuda::DeviceCommunicator;
using runtime::cuda::Driver;
using runtime::cuda::Gpu;
using runtime::cuda::OwnedStream;

constexpr int64_t kWords = 40'000;  // of a tensor: more than one block moves

class Words {
 public:
  Words(const Gpu& gpu, int64_t count) : driver_(gpu.driver()) {
    driver_.mem_alloc(&address_, static_cast<size_t>(count) * sizeof(int32_t));
  }
  ~Words() { driver_.mem_free.attempt(address_); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  Address address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  const Driver& driver_;
  Address address_ = 0;
};

// What a chip works with.
struct Desk {
  explicit Desk(const Gpu& gpu, int64_t results)
      : driver(gpu.driver()), stream(driver), in(gpu, kWords), out(gpu, results), results(results) {}

  void fill(const Words& words, int64_t value) {
    driver.memset_words_async(words.address(), static_cast<unsigned>(value), kWords, stream.get());
  }
  // The first and the last word of the result, once the stream comes to it.
  void keep(Memory& memory) {
    driver.memcpy_to_host_async(memory.get(), out.address(), sizeof(int32_t), stream.get());
    driver.memcpy_to_host_async(memory.get() + sizeof(int32_t), out.address() + Address(results - 1) * sizeof(int32_t),
                                sizeof(int32_t), stream.get());
  }
  collectives::Stream order() const { return {.handle = stream.get()}; }
  Call call(Kind kind, const Group* group) const {
    return {.kind = kind,
            .group = group,
            .dtype = ir::DType::i32,
            .parts = {{.in = in.data(), .out = out.data(), .shape = {kWords}}},
            .where = "words"};
  }

  const Driver& driver;
  OwnedStream stream;
  Words in, out;
  int64_t results;
};

std::array<int32_t, 2> ends_of(const Memory& memory) {
  std::array<int32_t, 2> ends = {};
  std::memcpy(ends.data(), memory.get(), sizeof ends);
  return ends;
}

struct OrderRow {
  std::string name;
  const runtime::cuda::Gpus& (*gpus)();
  TransportRig (*rig)();
};
void PrintTo(const OrderRow& row, std::ostream* out) { *out << row.name; }

class StreamOrderTest : public testing::TestWithParam<OrderRow> {
 protected:
  using Body = std::function<void(Communicator&, const Gpu&)>;

  void SetUp() override {
    if (!gpu_here().gpu) GTEST_SKIP() << gpu_here().why_not;
  }
  /// With the GPU of the chip, which is current.
  static void run(int64_t chips, const Body& body) {
    const runtime::cuda::Gpus& gpus = GetParam().gpus();
    const auto attached = [&](Communicator& c) {
      const Gpu& gpu = *gpus[runtime::cuda::gpu_of_chip(c.rank(), chips, gpus.size())];
      gpu.attach();
      body(c, gpu);
    };
    for (const auto& error : run_on(GetParam().rig().transport, {.chips = chips}, attached))
      EXPECT_FALSE(error) << error->what();
  }
};

INSTANTIATE_TEST_SUITE_P(Gpus, StreamOrderTest,
                         testing::Values(OrderRow{"one", one_gpu, virtual_chips_rig},
                                         OrderRow{"peers", peer_gpus, peer_chips_rig}),
                         [](const auto& info) { return info.param.name; });

TEST_P(StreamOrderTest, OperandsMayChangeAndResultsBeReadWithoutAWaitOfTheHost) {
  constexpr int64_t kChips = 4, kRounds = 30;
  run(kChips, [&](Communicator& c, const Gpu& gpu) {
    const Group& group = c.create_group(first_chips(kChips));
    Desk desk(gpu, kChips * kWords);
    const Call gather = desk.call(Kind::all_gather, &group);
    std::vector<Memory> kept;
    for (int64_t round = 0; round < kRounds; ++round) {
      desk.fill(desk.in, 100 * round + c.rank());
      const Ticket ticket = c.start(gather, desk.order());
      c.finish(ticket, desk.order());
      desk.keep(kept.emplace_back(pinned_memory(2 * sizeof(int32_t))));
    }
    dynamic_cast<DeviceCommunicator&>(c).wait(desk.stream.get());
    for (int64_t round = 0; round < kRounds; ++round) {
      const std::array<int32_t, 2> ends = ends_of(kept[static_cast<size_t>(round)]);
      ASSERT_EQ(ends[0], 100 * round) << "round " << round;
      ASSERT_EQ(ends[1], 100 * round + kChips - 1) << "round " << round;
    }
  });
}

TEST_P(StreamOrderTest, SumsAndMessagesKeepTheirOrderAmongKernels) {
  constexpr int64_t kChips = 3, kRounds = 30;
  run(kChips, [&](Communicator& c, const Gpu& gpu) {
    const Group& group = c.create_group(first_chips(kChips));
    Desk desk(gpu, kWords);
    const int64_t next = (c.rank() + 1) % kChips, previous = (c.rank() + 2) % kChips;
    Call sum = desk.call(Kind::all_reduce, &group);
    sum.parts[0].out = const_cast<void*>(sum.parts[0].in);  // in place
    Call send = desk.call(Kind::send, nullptr), recv = desk.call(Kind::recv, nullptr);
    send.peer = next;
    recv.peer = previous;
    std::vector<Memory> kept;
    for (int64_t round = 0; round < kRounds; ++round) {
      desk.fill(desk.in, round + c.rank());
      c.run(sum, desk.order());  // 3 rounds + 3
      const Ticket sent = c.start(send, desk.order());
      c.run(recv, desk.order());
      desk.keep(kept.emplace_back(pinned_memory(2 * sizeof(int32_t))));
      c.finish(sent, desk.order());
    }
    dynamic_cast<DeviceCommunicator&>(c).wait(desk.stream.get());
    for (int64_t round = 0; round < kRounds; ++round) {
      const std::array<int32_t, 2> ends = ends_of(kept[static_cast<size_t>(round)]);
      ASSERT_EQ(ends[0], 3 * round + 3) << "round " << round;
      ASSERT_EQ(ends[1], 3 * round + 3) << "round " << round;
    }
  });
}

TEST_P(StreamOrderTest, TheCallsOfOneChipCanBeCapturedAndReplayed) {
  run(1, [](Communicator& c, const Gpu& gpu) {
    constexpr int kRelaxed = 2;
    const Group& group = c.create_group({0});
    Desk desk(gpu, kWords);
    const Driver& driver = desk.driver;
    const Call gather = desk.call(Kind::all_gather, &group);
    runtime::cuda::Graph* graph = nullptr;
    runtime::cuda::GraphExec* step = nullptr;
    driver.stream_begin_capture(desk.stream.get(), kRelaxed);
    c.run(gather, desk.order());
    driver.stream_end_capture(desk.stream.get(), &graph);
    driver.graph_instantiate(&step, graph, 0);
    for (const int32_t value : {7, 11}) {
      Memory kept = pinned_memory(2 * sizeof(int32_t));
      desk.fill(desk.in, value);
      driver.graph_launch(step, desk.stream.get());
      desk.keep(kept);
      dynamic_cast<DeviceCommunicator&>(c).wait(desk.stream.get());
      EXPECT_EQ(ends_of(kept), (std::array<int32_t, 2>{value, value}));
    }
    driver.graph_exec_destroy(step);
    driver.graph_destroy(graph);
  });
}

}  // namespace
}  // namespace megacpp::testing_support
