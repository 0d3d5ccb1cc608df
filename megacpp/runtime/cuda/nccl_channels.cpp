// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/nccl_channels.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "megacpp/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kIdBytes = sizeof(NcclUniqueId);
constexpr size_t kGreetingBytes = 4096;         // one to send, and one from each member
constexpr std::chrono::seconds kStuckLimit(1);  // for whoever enqueues, before its channel is ended under it

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
  auto channel = std::make_unique<Channel>(options_.driver);
  const auto self = std::ranges::find(key.members, options_.control.rank());
  MEGACPP_CHECK(self != key.members.end()) << "a channel of other chips";
  channel->rank = static_cast<int>(self - key.members.begin());
  if (key.members.size() > 1) offer_id(key, *channel);
  const std::lock_guard guard(mutex_);
  return *(channels_[key] = std::move(channel));
}

// The first member makes the id: a group gathers what all have, of which only that counts; a message's sender sends it.
void NcclChannels::offer_id(const ChannelKey& key, Channel& channel) {
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

void NcclChannels::connect() {
  if (!has_unconnected_) return;
  has_unconnected_ = false;
  if (greetings_ == 0) options_.driver.mem_alloc(&greetings_, kGreetingBytes);
  const auto each_unconnected = [this](const auto& body) {
    for (const auto& [key, channel] : channels_)
      if (channel->comm == nullptr && key.members.size() > 1) body(key, *channel);
  };
  {
    const std::lock_guard guard(options_.control_mutex);
    each_unconnected([this](const ChannelKey&, Channel& channel) {
      options_.control.finish(channel.ticket, collectives::kHostThread);
    });
  }
  each_unconnected([this](const ChannelKey& key, Channel& channel) {
    NcclUniqueId id = channel.own_id;
    if (channel.rank != 0) std::memcpy(&id, channel.ids.data(), sizeof id);
    NcclComm* const comm =
        options_.nccl.join({.id = id, .rank = channel.rank, .ranks = static_cast<int>(key.members.size())});
    const std::lock_guard guard(mutex_);
    channel.comm = comm;
    greet(key, channel);
  });
}

// NCCL joins two members at their first message, and its call returns only when both are at it. Later that could leave
// chips waiting for each other, which need no common order of their calls: so a byte goes each way here.
void NcclChannels::greet(const ChannelKey& key, const Channel& channel) const {
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
  options_.nccl.end();
}

void NcclChannels::abort() {
  if (is_aborted_.exchange(true)) return;
  std::unique_lock lock(mutex_, std::defer_lock);
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
  const auto end = std::chrono::steady_clock::now() + limit;
  for (const auto& [key, channel] : channels_)
    while (options_.driver.stream_query.attempt(channel->stream.get()) == kNotReady &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string NcclChannels::failure() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_aborted_) return "";
  for (const auto& [key, channel] : channels_) {
    if (channel->comm == nullptr) continue;
    if (std::string failed = options_.nccl.failure(channel->comm); !failed.empty()) return failed;
  }
  return "";
}

}  // namespace megacpp::runtime::cuda
