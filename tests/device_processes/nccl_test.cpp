// SPDX-License-Identifier: Apache-2.0
// Every kind of call between processes on one GPU, against what the transport of the CPU backend leaves, bit for bit;
// and what becomes of the others when one fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <iostream>
#include <string>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/collectives/inproc/move.h"
#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/exchange_steps.h"
#include "megacpp/machine/cuda/handles.h"
#include "tests/device_processes/gpu_processes.h"
#include "tests/support/first_chips.h"

namespace megacpp::testing_support {
namespace {

uint16_t bf16(float number) { return static_cast<uint16_t>(ir::bits_of(ir::DType::bf16, static_cast<double>(number))); }

using collectives::Call;
using collectives::Group;
using collectives::Kind;
using collectives::Part;
using collectives::Reduction;
using ir::DType;
using runtime::cuda::Address;
using runtime::cuda::DeviceCommunicator;
using runtime::cuda::Driver;
using runtime::cuda::OwnedStream;

constexpr std::chrono::milliseconds kPatient = std::chrono::seconds(30);
constexpr int kRelaxedCapture = 2;

// Skips, or demands these endings.
#define EXPECT_ENDINGS(endings, ...)                                                                   \
  do {                                                                                                 \
    const std::vector<int> found = endings;                                                            \
    if (std::ranges::count(found, kNoGpu) > 0) GTEST_SKIP() << "no GPU or no NCCL: processes say why"; \
    EXPECT_EQ(found, (std::vector<int> __VA_ARGS__));                                                  \
  } while (false)

using Bytes = std::vector<std::byte>;

// Memory of the GPU.
class DeviceBytes {
 public:
  DeviceBytes(const Driver& driver, size_t bytes) : driver_(driver), size_(bytes) {
    driver_.mem_alloc(&address_, std::max<size_t>(bytes, 256));
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { driver_.mem_free.attempt(address_); }

  void* data() const { return reinterpret_cast<void*>(address_); }
  void upload(const Bytes& bytes, runtime::cuda::Stream* stream) const {
    if (!bytes.empty()) driver_.memcpy_to_device_async(address_, bytes.data(), bytes.size(), stream);
  }
  void download(Bytes& bytes, runtime::cuda::Stream* stream) const {
    bytes.resize(size_);
    if (size_ > 0) driver_.memcpy_to_host_async(bytes.data(), address_, size_, stream);
  }

 private:
  const Driver& driver_;
  const size_t size_;
  Address address_ = 0;
};

size_t bytes_of(const ir::Shape& shape, DType dtype) {
  return static_cast<size_t>(ir::num_elements(shape) * ir::dtype_bytes(dtype));
}

// Numbers whose sums round, of a chip's part.
Bytes operand_of(int64_t chip, size_t part, DType dtype, size_t bytes) {
  Bytes operand(bytes);
  const size_t width = static_cast<size_t>(ir::dtype_bytes(dtype));
  for (size_t at = 0; at + width <= bytes; at += width) {
    uint32_t h = static_cast<uint32_t>(chip * 7919 + static_cast<int64_t>(part * 131 + at)) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    const float number = static_cast<float>(static_cast<int32_t>(h)) / 3e8f;
    const uint16_t half = bf16(number);
    const uint8_t truth = h & 1u;
    if (dtype == DType::f32) std::memcpy(&operand[at], &number, width);
    if (dtype == DType::bf16) std::memcpy(&operand[at], &half, width);
    if (dtype == DType::i32) std::memcpy(&operand[at], &h, width);
    if (dtype == DType::pred) std::memcpy(&operand[at], &truth, width);
  }
  return operand;
}

// What the chip of `index` must have afterwards, by part.
std::vector<Bytes> serial_results(const Call& call, int64_t index, int64_t n) {
  std::deque<Group> groups;
  std::deque<Bytes> buffers;
  std::vector<Call> calls;
  for (int64_t member = 0; member < n; ++member) {
    groups.push_back({.members = first_chips(n), .index = member});
    calls.push_back(call);
    calls.back().group = &groups.back();
    for (size_t p = 0; p < call.parts.size(); ++p) {
      buffers.push_back(operand_of(member, p, call.dtype, bytes_of(call.parts[p].shape, call.dtype)));
      calls.back().parts[p].in = buffers.back().data();
      buffers.emplace_back(bytes_of(collectives::result_shape(call.kind, call.parts[p], n), call.dtype));
      calls.back().parts[p].out = buffers.back().data();
    }
  }
  std::vector<const Call*> pointers;
  for (const Call& each : calls) pointers.push_back(&each);
  std::vector<const void*> room(2 * pointers.size());
  for (int64_t step = 1; step <= collectives::steps_of(call.kind); ++step)
    for (int64_t member = 0; member < n; ++member)
      collectives::move_data({.calls = pointers, .index = member, .pointers = room}, step);
  std::vector<Bytes> results;
  const size_t first = static_cast<size_t>(index) * 2 * call.parts.size();
  for (size_t p = 0; p < call.parts.size(); ++p) results.push_back(buffers[first + 2 * p + 1]);
  return results;
}

// One process's chip with its stream.
struct Worker {
  explicit Worker(const GpuProcess& process)
      : driver(process.gpu.driver()),
        communicator(dynamic_cast<DeviceCommunicator&>(process.world.communicator(process.chip))),
        stream(driver) {}

  collectives::Stream order() const { return {.handle = stream.get()}; }
  void wait() const { communicator.wait(stream.get()); }

  // Whether the call leaves what it must; `call` lacks its addresses.
  bool is_right(Call call) const {
    const int64_t n = call.group->size();
    std::deque<DeviceBytes> buffers;
    std::deque<Bytes> operands, results;
    DeviceBytes workspace(driver, static_cast<size_t>(runtime::cuda::exchange_workspace(call, n)));
    call.workspace = workspace.data();
    for (size_t p = 0; p < call.parts.size(); ++p) {
      operands.push_back(operand_of(communicator.rank(), p, call.dtype, bytes_of(call.parts[p].shape, call.dtype)));
      const DeviceBytes& in = buffers.emplace_back(driver, operands.back().size());
      in.upload(operands.back(), stream.get());
      call.parts[p].in = in.data();
      const ir::Shape result = collectives::result_shape(call.kind, call.parts[p], n);
      call.parts[p].out = buffers.emplace_back(driver, bytes_of(result, call.dtype)).data();
    }
    communicator.run(call, order());
    wait();  // within the limit: a download to memory that is not pinned would hold this thread for as long as the call
    for (size_t p = 0; p < call.parts.size(); ++p) buffers[2 * p + 1].download(results.emplace_back(), stream.get());
    wait();
    const std::vector<Bytes> wanted = serial_results(call, call.group->index, n);
    for (size_t p = 0; p < call.parts.size(); ++p) {
      if (results[p] == wanted[p]) continue;
      std::cerr << "chip " << communicator.rank() << ": wrong part " << p << " of " << to_string(call) << std::endl;
      return false;
    }
    return true;
  }

  const Driver& driver;
  DeviceCommunicator& communicator;
  OwnedStream stream;
};

Part part_along(ir::Shape shape, int64_t dim, int64_t concat = 0) {
  return {.shape = std::move(shape), .dim = dim, .concat_dim = concat};
}

int check_kinds(const GpuProcess& process) {
  const Worker worker(process);
  const int64_t n = process.world.chips();
  const Group& group = worker.communicator.create_group(first_chips(n));
  bool all_right = true;
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce, Kind::all_to_all, Kind::permute})
    for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::pred}) {
      Call call = {.kind = kind, .group = &group, .dtype = dtype, .shift = 1, .parts = {}, .where = "kinds"};
      if (dtype == DType::pred) call.reduction = Reduction::max;
      call.parts = {part_along({n}, 0), part_along({3, 2 * n, 5}, 1, 2), part_along({64 * n, 33, 8}, 0, 1),
                    part_along({2, 3, 16 * n}, 2, 0), part_along({0, n}, 1)};
      all_right &= worker.is_right(call);
    }
  return all_right ? kDone : kFailed;
}

TEST(NcclTest, EveryKindLeavesTheBitsOfOneProcess) {
  EXPECT_ENDINGS(run_gpu_processes(2, kPatient, check_kinds), {kDone, kDone});
}

TEST(NcclTest, EveryKindAmongThree) {
  EXPECT_ENDINGS(run_gpu_processes(3, kPatient, check_kinds), {kDone, kDone, kDone});
}

// Around a ring, in both directions and with several tags: every chip sends before it receives.
int check_messages(const GpuProcess& process) {
  const Worker worker(process);
  const int64_t n = process.world.chips(), next = (process.chip + 1) % n, previous = (process.chip + n - 1) % n;
  constexpr size_t kBytes = 1 << 20;
  std::deque<DeviceBytes> buffers;
  std::deque<Call> sends, recvs;
  for (const int64_t tag : {1, 2}) {
    const int64_t to = tag == 1 ? next : previous, from = tag == 1 ? previous : next;
    const DeviceBytes& out = buffers.emplace_back(worker.driver, kBytes);
    out.upload(operand_of(process.chip, static_cast<size_t>(tag), DType::f32, kBytes), worker.stream.get());
    sends.push_back({.kind = Kind::send, .peer = to, .tag = tag, .parts = {}, .where = "ring"});
    sends.back().parts = {{.in = out.data(), .shape = {kBytes / 4}}};
    recvs.push_back({.kind = Kind::recv, .peer = from, .tag = tag, .parts = {}, .where = "ring"});
    const DeviceBytes& in = buffers.emplace_back(worker.driver, kBytes);
    recvs.back().parts = {{.out = in.data(), .shape = {kBytes / 4}}};
  }
  worker.wait();  // what was uploaded lives no longer
  for (const Call& call : sends) worker.communicator.announce(call);
  for (const Call& call : recvs) worker.communicator.announce(call);
  for (int round = 0; round < 3; ++round) {
    std::vector<collectives::Ticket> tickets;
    for (const Call& call : sends) tickets.push_back(worker.communicator.start(call, worker.order()));
    for (const Call& call : recvs) tickets.push_back(worker.communicator.start(call, worker.order()));
    for (const collectives::Ticket ticket : tickets) worker.communicator.finish(ticket, worker.order());
  }
  for (size_t i = 0; i < recvs.size(); ++i) {
    Bytes got;
    buffers[2 * i + 1].download(got, worker.stream.get());
    worker.wait();
    if (got != operand_of(recvs[i].peer, i + 1, DType::f32, kBytes)) return kFailed;
  }
  return kDone;
}

TEST(NcclTest, MessagesPassEachOther) {
  EXPECT_ENDINGS(run_gpu_processes(3, kPatient, check_messages), {kDone, kDone, kDone});
}

// A step that was run once is captured and replayed.
int check_capture(const GpuProcess& process) {
  const Worker worker(process);
  const Driver& driver = worker.driver;
  const Group& group = worker.communicator.create_group(first_chips(process.world.chips()));
  constexpr int64_t kWords = 100'000;
  const DeviceBytes in(driver, kWords * 4), out(driver, kWords * 4);
  Call sum = {.kind = Kind::all_reduce, .group = &group, .dtype = DType::i32, .parts = {}, .where = "sum"};
  sum.parts = {{.in = in.data(), .out = out.data(), .shape = {kWords}}};
  const DeviceBytes workspace(driver, static_cast<size_t>(runtime::cuda::exchange_workspace(sum, group.size())));
  sum.workspace = workspace.data();
  worker.communicator.run(sum, worker.order());
  worker.wait();
  runtime::cuda::Graph* graph = nullptr;
  runtime::cuda::GraphExec* step = nullptr;
  driver.stream_begin_capture(worker.stream.get(), kRelaxedCapture);
  worker.communicator.run(sum, worker.order());
  driver.stream_end_capture(worker.stream.get(), &graph);
  driver.graph_instantiate(&step, graph, 0);
  bool all_right = true;
  for (const int32_t base : {5, 1000}) {
    driver.memset_words_async(reinterpret_cast<Address>(in.data()), static_cast<unsigned>(base + process.chip), kWords,
                              worker.stream.get());
    driver.graph_launch(step, worker.stream.get());
    Bytes got;
    out.download(got, worker.stream.get());
    worker.wait();
    int32_t last = 0;
    std::memcpy(&last, &got[got.size() - sizeof last], sizeof last);
    const int64_t n = group.size();
    all_right &= last == n * base + n * (n - 1) / 2;
  }
  driver.graph_exec_destroy(step);
  driver.graph_destroy(graph);
  return all_right ? kDone : kFailed;
}

TEST(NcclTest, ACallCanBeCapturedAndReplayed) {
  EXPECT_ENDINGS(run_gpu_processes(2, kPatient, check_capture), {kDone, kDone});
}

struct Leaving {
  std::function<void(collectives::World&)> leave;
  int calls_before = 1;                    // that chip 1 takes part in; 0: it leaves while they connect
  base::Code told_by = base::Code::E3101;  // how chip 0 learns of it
};

// Chip 1 leaves, one way or the other; chip 0 waits for it in its next call.
int wait_for_one_that_left(const GpuProcess& process, const Leaving& leaving) {
  const Worker worker(process);
  const Group& group = worker.communicator.create_group({0, 1});
  Call sum = {.kind = Kind::all_reduce, .group = &group, .parts = {part_along({1000}, 0)}, .where = "block03.sum"};
  try {  // chip 1 may be gone before chip 0 has seen the end of the calls before
    for (int i = 0; i < leaving.calls_before; ++i)
      if (!worker.is_right(sum)) return kFailed;
    if (process.chip == 1) {
      leaving.leave(process.world);
      return kDone;
    }
    worker.is_right(sum);
  } catch (const base::Error& error) {
    std::cerr << error.what() << std::endl;
    const bool names_it = std::string(error.what()).find("chip 1") != std::string::npos;
    return error.code() == leaving.told_by && names_it ? kDone : kFailed;
  }
  return kFailed;
}

TEST(NcclTest, AFailedChipEndsTheWaitOfTheOther) {
  const auto body = [](const GpuProcess& process) {
    return wait_for_one_that_left(process,
                                  {.leave = [](collectives::World& world) { world.abort(1, "out of paint"); }});
  };
  EXPECT_ENDINGS(run_gpu_processes(2, kPatient, body), {kDone, kDone});
}

TEST(NcclTest, AProcessThatIsGoneEndsTheWaitOfTheOther) {
  for (const int calls : {1, 0}) {
    const auto body = [calls](const GpuProcess& process) {
      return wait_for_one_that_left(process, {.leave = [](collectives::World&) { ::_exit(3); }, .calls_before = calls});
    };
    EXPECT_ENDINGS(run_gpu_processes(2, kPatient, body), {kDone, 3});
  }
}

// It is not gone, and nothing has failed: only the limit tells.
TEST(NcclTest, AProcessThatStopsIsNamedAfterTheLimit) {
  for (const int calls : {1, 0}) {
    const auto body = [calls](const GpuProcess& process) {
      return wait_for_one_that_left(process, {.leave = [](collectives::World&) { ::raise(SIGSTOP); },
                                              .calls_before = calls,
                                              .told_by = base::Code::E3102});
    };
    EXPECT_ENDINGS(run_gpu_processes(2, std::chrono::seconds(5), body), {kDone, kStopped});
  }
}

}  // namespace
}  // namespace megacpp::testing_support
