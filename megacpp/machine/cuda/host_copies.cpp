// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/host_copies.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/ops/tier_copy.h"

namespace megacpp::runtime::cuda {
namespace {

[[noreturn]] void refuse_pinned_memory(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  throw memory::OutOfMemory(
      base::Code::E2005,
      {.where = "pinned memory of this host",
       .got = fmt::format("{} for {}", result_text(kOutOfMemory), memory::exact_bytes(wanted)),
       .wanted = "the planned bytes of what is offloaded in one piece, which the system may not page out",
       .next = "free memory of the host, raise the limit of locked memory (ulimit -l) or of the container, or set "
               "layout.offload: none"},
      {.cls = memory::OomClass::host, .phase = "loading", .wanted = wanted});
}

std::byte* pinned_memory(const Driver& driver, size_t bytes) {
  void* memory = nullptr;
  const Result result = driver.mem_host_alloc.attempt(&memory, bytes, 0);
  if (result == kOutOfMemory) refuse_pinned_memory(bytes);
  if (result != kSuccess) raise_failed_call("cuMemHostAlloc", result);
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

/// A copy with all that orders it.
struct OrderedCopy {
  const Driver& driver;
  Stream* chip;
  Stream* own;
  Event* ready;  // what comes before it
  Event* ended;
  std::byte* to;
  const std::byte* from;
  size_t bytes;
  bool is_to_host;

  /// Behind all that the chip has enqueued: what used these bytes before is done with them then.
  void start() const {
    driver.event_record(ready, chip);
    driver.stream_wait_event(own, ready, 0);
    if (is_to_host)
      driver.memcpy_to_host_async(to, reinterpret_cast<Address>(from), bytes, own);
    else
      driver.memcpy_to_device_async(reinterpret_cast<Address>(to), from, bytes, own);
    driver.event_record(ended, own);
  }
};

}  // namespace

HostCopies::HostCopies(const Driver& driver, Stream* stream, int64_t bytes)
    : driver_(driver), stream_(stream), bytes_(static_cast<size_t>(bytes)), to_device_(driver), to_host_(driver) {
  memory_ = pinned_memory(driver, bytes_);
}

HostCopies::~HostCopies() {
  for (const OwnedStream* stream : {&to_device_, &to_host_}) driver_.stream_synchronize.attempt(stream->get());
  driver_.mem_free_host.attempt(memory_);
}

Event* HostCopies::new_event() { return events_.emplace_back(driver_).get(); }

bool HostCopies::holds(const std::byte* address) const {
  return std::less_equal<>()(memory_, address) && std::less<>()(address, memory_ + bytes_);
}

DeviceCall HostCopies::prepare(const BoundNode& bound) {
  if (bound.node.op == ops::kCopyStartOp) return prepare_start(bound);
  const auto ended = ended_.find(bound.node.operands[0].index);
  MEGACPP_CHECK(ended != ended_.end()) << "no copy was started for " << bound.node.op << " @" << bound.node.scope;
  Event* const event = ended->second;
  ended_.erase(ended);
  return {.run = [event, stream = stream_, &driver = driver_] { driver.stream_wait_event(stream, event, 0); }};
}

DeviceCall HostCopies::prepare_start(const BoundNode& bound) {
  const bool is_to_host = ops::tier_of(bound.node) != ir::Tier::device;
  MEGACPP_CHECK(holds(is_to_host ? bound.results[0] : bound.operands[0]))
      << bound.node.op << " @" << bound.node.scope << " of memory that is not the host's";
  const OrderedCopy copy{.driver = driver_,
                         .chip = stream_,
                         .own = is_to_host ? to_host_.get() : to_device_.get(),
                         .ready = new_event(),
                         .ended = new_event(),
                         .to = bound.results[0],
                         .from = bound.operands[0],
                         .bytes = static_cast<size_t>(bound.graph.type(bound.node.results[0]).bytes()),
                         .is_to_host = is_to_host};
  ended_[bound.node.results[0].index] = copy.ended;
  return {.run = [copy] { copy.start(); }};
}

}  // namespace megacpp::runtime::cuda
