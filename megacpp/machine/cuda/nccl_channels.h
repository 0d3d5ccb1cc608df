// SPDX-License-Identifier: Apache-2.0
// The communicators of NCCL that one chip is a member of, each with its stream: one for every group, one for every
// direction and tag of messages with another chip, since a receiver may come to two tags in another order than their
// sender. Ids are offered as soon as a channel is opened. connect() awaits them and connects all that are open, down to
// a first message between any two members, in an order that is the same on all chips, so that none waits for another in
// a circle. No wait here is without a limit, and abort() ends all of them. Used by one thread; abort() by any.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/machine/collectives/communicator.h"
#include "megacpp/machine/cuda/handles.h"
#include "megacpp/machine/cuda/nccl.h"

namespace megacpp::runtime::cuda {

/// That NCCL's word of a failure waits for a better one: which chip it was.
inline constexpr std::chrono::seconds kToldLimit(2);

/// The same channel on all its members.
struct ChannelKey {
  bool is_message = false;
  std::vector<int64_t> members = {};  // chips by rank; of messages the sender and the receiver
  int64_t tag = 0;                    // of messages

  auto operator<=>(const ChannelKey&) const = default;
};

class NcclChannels {
 public:
  using Lock = std::unique_lock<std::timed_mutex>;

  struct Channel {
    Channel(const Driver& driver, ChannelKey of) : key(std::move(of)), stream(driver) {}

    const ChannelKey key;
    int rank = 0;
    OwnedStream stream;
    NcclComm* comm = nullptr;  // none for a channel of one
    bool is_connected = false;
    // Of the exchange of ids, which moves them until it is finished:
    NcclUniqueId own_id = {};
    std::vector<std::byte> ids = {};
    collectives::Call offer = {};
    collectives::Ticket ticket = {};
  };

  struct Options {
    const Driver& driver;
    const Nccl& nccl;
    collectives::Communicator& control;  // this chip's end of the world that hands ids around
    std::timed_mutex& control_mutex;     // held by who uses it
    std::chrono::milliseconds wait_limit;
    /// E3101 once a chip has failed.
    std::function<void(const std::string& where)> check_alive;
    /// E3102, which names these chips; ends all channels first.
    std::function<void(const std::string& where, const std::vector<int64_t>& members)> time_out;
  };
  explicit NcclChannels(Options options) : options_(std::move(options)) {}
  /// The context is current, and no graph has calls of these channels any more.
  ~NcclChannels();
  NcclChannels(const NcclChannels&) = delete;
  NcclChannels& operator=(const NcclChannels&) = delete;

  /// The same key gives the same channel. Waits for nobody.
  Channel& open(const ChannelKey& key);
  /// Connects what was opened since the last call: waits for the other members. E3104 where NCCL cannot,
  /// memory::OutOfMemory where the GPU has no memory for it.
  void connect();
  /// Waits for offers of ids that nobody has asked for, while the others are still there to take them.
  void finish_offers();

  /// Held while something is enqueued on a channel.
  std::timed_mutex& mutex() { return mutex_; }
  /// Ends a group of messages on the channel, and returns when they are enqueued. Lets go of `lock`, which is of
  /// mutex(), while it waits.
  void end_messages(Lock& lock, const Channel& channel, const std::string& where);

  bool is_aborted() const { return is_aborted_; }
  /// Ends what is under way, also where somebody is stuck with the mutex. Nothing may be enqueued any more. Returns
  /// before NCCL has: that waits for graphs with its calls to be destroyed.
  void abort();
  /// Until the streams have done what they hold, or so long.
  void wait_for_streams(std::chrono::milliseconds limit) const;
  /// What NCCL has noticed on any channel; empty: nothing.
  std::string failure();

 private:
  void offer_id(Channel& channel);
  void connect_all();
  void join(Channel& channel);
  void greet(Lock& lock, const Channel& channel);
  void await(Lock& lock, const Channel& channel, const std::string& where);
  bool is_ready(Lock& lock, const Channel& channel, const std::string& where);
  [[noreturn]] void raise_ended(const std::string& where) const;
  [[noreturn]] void refuse_memory(const std::string& reason) const;
  void end(NcclComm* comm);

  const Options options_;
  std::timed_mutex mutex_;
  std::atomic<bool> is_aborted_ = false;
  std::map<ChannelKey, std::unique_ptr<Channel>> channels_;
  bool has_unconnected_ = false;
  Address greetings_ = 0;             // device memory for the first messages of all channels
  std::vector<std::thread> endings_;  // of an abort, one for each communicator
};

}  // namespace megacpp::runtime::cuda
