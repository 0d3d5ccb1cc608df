// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/nccl_channels.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kIdBytes = sizeof(NcclUniqueId);
constexpr std::chrono::seconds kStuckLimit(1);       // for whoever enqueues, before its channel is ended under it
constexpr std::chrono::microseconds kPollEvery(50);  // whether a communicator is ready
constexpr std::chrono::milliseconds kAskEvery(5);    // whether a chip has failed

std::string connecting_text(const ChannelKey& key) { return "connecting " + collectives::chips_text(key.members); }

}  // namespace

NcclChannels::~NcclChannels() {
  for (std::thread& ending : endings_) ending.join();
  if (!is_aborted_)
    for (const auto& [key, channel] : channels_)
      if (channel->comm != nullptr) options_.nccl.destroy(channel->comm);
  if (greetings_ != 0) options_.driver.mem_free.attempt(greetings_);
}

NcclChannels::Channel& NcclChannels::open(const ChannelKey& key) {
  const auto known = channels_.find(key);
  if (known != channels_.end()) return *known->second;
  auto channel = std::make_unique<Channel>(options_.driver, key);
  const auto self = std::ranges::find(key.members, options_.control.rank());
  MEGACPP_CHECK(self != key.members.end()) << "a channel of other chips";
  channel->rank = static_cast<int>(self - key.members.begin());
  if (key.members.size() > 1) offer_id(*channel);
  const std::lock_guard guard(mutex_);
  return *(channels_[key] = std::move(channel));
}

// The first member makes the id: a group gathers what all have, of which only that counts; a message's sender sends it.
void NcclChannels::offer_id(Channel& channel) {
  const ChannelKey& key = channel.key;
  if (channel.rank == 0) channel.own_id = options_.nccl.unique_id();
  const size_t members = key.is_message ? 1 : key.members.size();
  channel.ids.resize(members * sizeof(NcclUniqueId));
  const std::lock_guard guard(options_.control_mutex);
  collectives::Call& offer = channel.offer;
  offer.dtype = ir::DType::pred;
  offer.parts = {{.in = &channel.own_id, .out = channel.ids.data(), .shape = {kIdBytes}}};
  offer.where = "an id of NCCL";
  if (key.is_message) {
    offer.kind = channel.rank == 0 ? collectives::Kind::send : collectives::Kind::recv;
    offer.peer = key.members[channel.rank == 0 ? 1 : 0];
    offer.tag = key.tag;
    options_.control.reserve_messages(1);
  } else {
    offer.kind = collectives::Kind::all_gather;
    offer.group = &options_.control.create_group(key.members);
  }
  channel.ticket = options_.control.start(offer, collectives::kHostThread);
  has_unconnected_ = true;
}

void NcclChannels::finish_offers() {
  const std::lock_guard guard(options_.control_mutex);
  for (const auto& [key, channel] : channels_) {
    if (channel->ticket.number < 0) continue;
    options_.control.finish(channel->ticket, collectives::kHostThread);
    channel->ticket = {};
  }
}

void NcclChannels::connect() {
  if (!has_unconnected_) return;
  try {
    connect_all();
  } catch (const base::Error& error) {
    if (!is_out_of_memory(error)) throw;
    refuse_memory(error.problem().got);
  }
  has_unconnected_ = false;
}

void NcclChannels::connect_all() {
  if (greetings_ == 0) {
    const size_t bytes = static_cast<size_t>(options_.control.chips()) + 1;  // one to send, and one from each member
    const Result result = options_.driver.mem_alloc.attempt(&greetings_, bytes);
    if (result == kOutOfMemory) refuse_memory(result_text(result));
    if (result != kSuccess) raise_failed_call("cuMemAlloc_v2", result);
  }
  finish_offers();
  for (const auto& [key, channel] : channels_) {
    if (channel->is_connected || key.members.size() == 1) continue;
    join(*channel);
  }
}

// From the moment that the communicator is known here abort() ends it, and whoever waits for its other members.
void NcclChannels::join(Channel& channel) {
  const std::string where = connecting_text(channel.key);
  NcclUniqueId id = channel.own_id;
  if (channel.rank != 0) std::memcpy(&id, channel.ids.data(), sizeof id);
  NcclComm* const comm =
      options_.nccl.join({.id = id, .rank = channel.rank, .ranks = static_cast<int>(channel.key.members.size())});
  Lock lock(mutex_);
  if (is_aborted_) {
    lock.unlock();
    options_.nccl.abort(comm);
    raise_ended(where);
  }
  channel.comm = comm;
  await(lock, channel, where);
  greet(lock, channel);
  channel.is_connected = true;
}

// NCCL joins two members at their first message, and both must be at it. Later that could leave chips waiting for each
// other, which need no common order of their calls: so a byte goes each way here.
void NcclChannels::greet(Lock& lock, const Channel& channel) {
  const ChannelKey& key = channel.key;
  const bool sends = !key.is_message || channel.rank == 0, receives = !key.is_message || channel.rank == 1;
  options_.nccl.begin();
  for (size_t member = 0; member < key.members.size(); ++member) {
    if (static_cast<int>(member) == channel.rank) continue;
    Nccl::Message byte{.comm = channel.comm,
                       .peer = static_cast<int>(member),
                       .address = greetings_,
                       .bytes = 1,
                       .stream = channel.stream.get()};
    if (sends) options_.nccl.send(byte);
    byte.address += 1 + member;
    if (receives) options_.nccl.receive(byte);
  }
  end_messages(lock, channel, connecting_text(key));
}

void NcclChannels::end_messages(Lock& lock, const Channel& channel, const std::string& where) {
  options_.nccl.end();
  if (channel.comm != nullptr) await(lock, channel, where);
}

// The lock is let go between two looks, so that abort() need not wait for it; an aborted communicator is not asked.
void NcclChannels::await(Lock& lock, const Channel& channel, const std::string& where) {
  const Clock::time_point end = Clock::now() + options_.wait_limit;
  while (!is_ready(lock, channel, where)) {
    lock.unlock();
    options_.check_alive(where);
    if (Clock::now() >= end) options_.time_out(where, channel.key.members);
    std::this_thread::sleep_for(kPollEvery);
    lock.lock();
    if (!is_aborted_) continue;
    lock.unlock();
    raise_ended(where);
  }
}

// NCCL says that a socket was closed, the control world which chip is gone: that may come a moment later, and says
// more.
bool NcclChannels::is_ready(Lock& lock, const Channel& channel, const std::string& where) {
  try {
    return options_.nccl.is_ready(channel.comm, "waiting for its other members");
  } catch (const base::Error& error) {
    lock.unlock();
    if (is_out_of_memory(error)) throw;
    for (const Clock::time_point end = Clock::now() + kToldLimit; Clock::now() < end;) {
      options_.check_alive(where);
      std::this_thread::sleep_for(kAskEvery);
    }
    throw;
  }
}

// In the words of the failure, which is told before channels are ended.
void NcclChannels::raise_ended(const std::string& where) const {
  options_.check_alive(where);
  base::raise(base::Code::E3101, {.where = collectives::chip_text(options_.control.rank()) + ", " + where,
                                  .got = "channels of NCCL that were ended",
                                  .wanted = "every chip to run until the end",
                                  .next = "see what the other processes report"});
}

void NcclChannels::refuse_memory(const std::string& reason) const {
  size_t free = 0, total = 0;
  options_.driver.mem_get_info.attempt(&free, &total);
  const int64_t chip = options_.control.rank();
  throw memory::OutOfMemory(
      base::Code::E2003,
      {.where = collectives::chip_text(chip) + ", connecting NCCL",
       .got = fmt::format("{}; {} bytes are free", reason, free),
       .wanted = "memory beside the plan for the communicators of its groups and messages",
       .next = "leave room for them: lower hardware.limit, or reduce train.batch or train.sequence"},
      {.cls = memory::OomClass::load, .phase = "loading", .chip = chip, .limit = static_cast<int64_t>(free)});
}

void NcclChannels::abort() {
  if (is_aborted_.exchange(true)) return;
  Lock lock(mutex_, std::defer_lock);
  const bool is_free = lock.try_lock_for(kStuckLimit);
  for (const auto& [key, channel] : channels_)
    if (channel->comm != nullptr) end(channel->comm);
  if (is_free) lock.unlock();
}

// Each on a thread of its own: NCCL stops the kernels of a communicator at once, but returns only when no graph has
// calls of it any more, and such a graph may wait for another communicator.
void NcclChannels::end(NcclComm* comm) {
  try {
    endings_.emplace_back([comm, this] { options_.nccl.abort(comm); });
  } catch (const std::system_error&) {
    options_.nccl.abort(comm);
  }
}

void NcclChannels::wait_for_streams(std::chrono::milliseconds limit) const {
  const Clock::time_point end = Clock::now() + limit;
  for (const auto& [key, channel] : channels_)
    while (options_.driver.stream_query.attempt(channel->stream.get()) == kNotReady && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What fails while it is connected is told by who connects it.
std::string NcclChannels::failure() {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_aborted_) return "";
  for (const auto& [key, channel] : channels_) {
    if (!channel->is_connected) continue;
    if (std::string failed = options_.nccl.failure(channel->comm); !failed.empty()) return failed;
  }
  return "";
}

}  // namespace megacpp::runtime::cuda
