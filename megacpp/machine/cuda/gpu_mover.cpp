// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/gpu_mover.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/call_event.h"
#include "megacpp/machine/cuda/device_communicator.h"

namespace megacpp::runtime::cuda {

using collectives::Call;
using collectives::EngineLock;
using collectives::GroupCalls;
using collectives::InFlight;

/// Makes a chip's own GPU current again when it goes: who enqueues for chips on others enters those, and may end
/// anywhere by a call that fails.
class GpuMover::OwnGpuAgain {
 public:
  explicit OwnGpuAgain(const Gpu& own) : own_(own) {}
  ~OwnGpuAgain() { own_.driver().ctx_set_current.attempt(own_.context()); }
  OwnGpuAgain(const OwnGpuAgain&) = delete;
  OwnGpuAgain& operator=(const OwnGpuAgain&) = delete;

 private:
  const Gpu& own_;
};

GpuMover::GpuMover(Options options) : options_(std::move(options)) {
  for (const std::shared_ptr<Gpu>& gpu : options_.gpus) {
    gpu->attach();
    kernels_.emplace_back(gpu->toolbox());
  }
  scratch_.resize(2 * static_cast<size_t>(options_.engine.chips()));
  for (int64_t chip = 0; chip < options_.engine.chips(); ++chip) {
    enter(chip);
    messages_.push_back({.received = OwnedStream(driver()), .sent = {}});
    if (has_several_gpus()) messages_.back().sent.emplace(driver());
  }
}

void GpuMover::open(GroupCalls& group, int64_t chip) {
  const OwnGpuAgain again(gpu_of(chip));
  Parts parts;  // kept when all of them are open: groups count from 0 on, as the engine's do
  for (int64_t index = 0; index < std::ssize(group.members()); ++index) {
    const size_t gpu = gpu_index(group.members()[static_cast<size_t>(index)]);
    if (parts.empty() || parts.back().gpu != gpu) {
      options_.gpus[gpu]->attach();
      parts.push_back({.gpu = gpu,
                       .members = {.begin = index, .end = index},
                       .stream = OwnedStream(driver()),
                       .moved = OwnedEvent(driver())});
    }
    parts.back().members.end = index + 1;
  }
  groups_.push_back(std::move(parts));
}

std::unique_ptr<collectives::CallState> GpuMover::make_state(int64_t chip) {
  enter(chip);
  return std::make_unique<CallEvent>(driver());
}

void GpuMover::mark(InFlight& call, collectives::Stream stream) {
  CallEvent& state = call_event(call);
  state.is_marked = stream.handle != nullptr;
  if (state.is_marked) driver().event_record(state.event.get(), static_cast<Stream*>(stream.handle));
}

const GpuMover::GpuPart& GpuMover::part_of(const GroupCalls& group, int64_t index) const {
  return *std::ranges::find_if(groups_[static_cast<size_t>(group.number())],
                               [index](const GpuPart& part) { return index < part.members.end; });
}

InFlight& GpuMover::member(const GroupCalls& group, size_t index, int64_t sequence) const {
  return options_.engine.at(group.members()[index]).in_flight(group, sequence);
}

void GpuMover::begin(EngineLock&, InFlight& last) {
  const OwnGpuAgain again(gpu_of(last.chip));
  GroupCalls& group = *last.group;
  const Parts& parts = groups_[static_cast<size_t>(group.number())];
  for (const GpuPart& part : parts) move_part(part, group, last.sequence);
  join_parts(parts);
  for (size_t index = 0; index < group.members().size(); ++index) {
    InFlight& each = member(group, index, last.sequence);
    driver().event_record(call_event(each).event.get(), part_of(group, static_cast<int64_t>(index)).stream.get());
    each.is_moved = true;
  }
}

void GpuMover::move_part(const GpuPart& part, GroupCalls& group, int64_t sequence) {
  options_.gpus[part.gpu]->attach();
  Stream* const stream = part.stream.get();
  for (size_t index = 0; index < group.members().size(); ++index)
    if (const CallEvent& state = call_event(member(group, index, sequence)); state.is_marked)
      driver().stream_wait_event(stream, state.event.get(), 0);
  const auto launch = [&](const CollectiveParams& table) { kernels_[part.gpu].run(table, stream); };
  tabulate(group.rendezvous(sequence).calls(), part.members, scratch_, launch);
}

// A member's operand is free when all GPUs have read it, and a sum is whole when all have added theirs.
void GpuMover::join_parts(const Parts& parts) const {
  if (parts.size() == 1) return;
  for (const GpuPart& part : parts) driver().event_record(part.moved.get(), part.stream.get());
  for (const GpuPart& part : parts)
    for (const GpuPart& other : parts)
      if (&part != &other) driver().stream_wait_event(part.stream.get(), other.moved.get(), 0);
}

void GpuMover::begin_message(InFlight& send, InFlight& recv, int64_t chip) {
  const OwnGpuAgain again(gpu_of(chip));
  enter(recv.chip);
  Stream* const stream = messages_[static_cast<size_t>(recv.chip)].received.get();
  for (const InFlight* end : {&send, &recv})
    if (call_event(*end).is_marked) driver().stream_wait_event(stream, call_event(*end).event.get(), 0);
  const auto launch = [&](const CollectiveParams& table) { kernels_[gpu_index(recv.chip)].run(table, stream); };
  tabulate_message(*send.call, *recv.call, launch);
  driver().event_record(call_event(recv).event.get(), stream);
  driver().event_record(call_event(send).event.get(), sender_stream(send, recv));
  send.is_moved = recv.is_moved = true;
}

void GpuMover::begin_remote(EngineLock&, InFlight& message) {
  MEGACPP_CHECK(false) << collectives::chip_text(message.call->peer) << " is in no other process";
}

// One of the sender's GPU that is behind the movement.
Stream* GpuMover::sender_stream(const InFlight& send, const InFlight& recv) const {
  if (gpu_index(send.chip) == gpu_index(recv.chip)) return messages_[static_cast<size_t>(recv.chip)].received.get();
  Stream* const sent = messages_[static_cast<size_t>(send.chip)].sent->get();
  driver().stream_wait_event(sent, call_event(recv).event.get(), 0);
  return sent;
}

// On one GPU nothing waits for what is not enqueued, and a device that has failed answers.
void GpuMover::join(EngineLock& lock, InFlight& call, collectives::Stream stream) {
  Event* const event = call_event(call).event.get();
  if (stream.handle != nullptr) return driver().stream_wait_event(static_cast<Stream*>(stream.handle), event, 0);
  lock.unlock();
  if (has_several_gpus())
    wait_until(
        call.chip, [&] { return driver().event_query.attempt(event); }, call.call->where);
  else
    driver().event_synchronize(event);
  lock.lock();
}

void GpuMover::wait(int64_t chip, Stream* stream) {
  if (!has_several_gpus()) return driver().stream_synchronize(stream);
  wait_until(
      chip, [&] { return driver().stream_query.attempt(stream); }, "the end of what it has enqueued");
}

// Without the lock. What waits for a GPU that is lost is left behind some time after the failure is known.
template <typename Query>
void GpuMover::wait_until(int64_t chip, const Query& query, const std::string& where) {
  collectives::CallEngine& engine = options_.engine;
  const Result result = wait_for_answer(
      query, [&] { return engine.has_failed(); }, engine.wait_limit(), [&] { time_out(chip, where); });
  if (result == kNotReady) engine.require_alive(chip, where);
  if (result != kSuccess) raise_failed_call("cuStreamQuery", result);
}

void GpuMover::time_out(int64_t chip, const std::string& where) {
  EngineLock lock(options_.engine.mutex);
  collectives::Waited waited{.limit = options_.engine.wait_limit()};
  for (int64_t other = 0; other < options_.engine.chips(); ++other)
    if (gpu_index(other) != gpu_index(chip)) waited.chips.push_back(other);
  base::Problem problem = collectives::device_took_too_long(chip, Call{.parts = {}, .where = where}, waited);
  problem.wanted = "the end of what its stream holds";
  problem.next =
      "look for a GPU that is lost (nvidia-smi, the kernel's log for Xid); a step must take less than "
      "train.wait_limit: raise it if the device is only slow";
  options_.engine.fail_with(lock, chip, base::Code::E3102, problem);
}

void GpuMover::propose(const collectives::Failure& failure) {
  end_by_ = std::chrono::steady_clock::now() + kEndLimit;
  options_.control.abort(failure.chip, failure.reason);
  options_.engine.decide(failure);
}

// Nothing is enqueued after a failure, and what is under way ends by itself: when this returns nobody reads the buffers
// of others.
void GpuMover::settle(int64_t chip) {
  driver().ctx_set_current.attempt(gpu_of(chip).context());
  for (const Parts& parts : groups_)
    for (const GpuPart& part : parts) wait_for_end(part.stream.get());
  for (const MessageStreams& streams : messages_) wait_for_end(streams.received.get());
}

// A device that has failed answers at once. Of several GPUs the stream of one that is well may wait for an event of one
// that is lost, and never end: all of them together have a limit, however many chips report.
void GpuMover::wait_for_end(Stream* stream) const {
  if (!has_several_gpus()) {
    driver().stream_synchronize.attempt(stream);
    return;
  }
  while (driver().stream_query.attempt(stream) == kNotReady && std::chrono::steady_clock::now() < end_by_)
    std::this_thread::sleep_for(kLookEvery);
}

}  // namespace megacpp::runtime::cuda
