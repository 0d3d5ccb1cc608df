// SPDX-License-Identifier: Apache-2.0
// The bytes of calls between processes. Chips read the buffers of processes on their host by themselves
// (peer_memory.h), and how far they are stands where these look (progress_flags.h); to others bytes are sent, straight
// from and to the chips' buffers. No order of calls leaves processes waiting for each other: bytes are sent only to a
// call that is there.
// - Of a reduction the operands cross, each where it is reduced, and are added there in the order of the group: the
//   same bits as in one process (Sums::exact). Or members of a process are added first, and their sum crosses.
// With the engine's lock held, which is let go while data moves.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/processes/buffer_addresses.h"
#include "megacpp/machine/collectives/processes/exchange_group.h"
#include "megacpp/machine/collectives/processes/frame_loop.h"
#include "megacpp/machine/collectives/processes/process_map.h"

namespace megacpp::collectives {

/// A send to another process or a receive from it, while it is under way.
struct RemoteMessage final : CallState {
  // A receive from another process of this host reads the memory of its send, once that is found:
  const Peer* peer = nullptr;  // whose buffers are read
  AddressList addresses;       // of them, in its memory
  int64_t number = 0;          // of its ticket
  // All others count:
  Cursor cursor;  // bytes sent or received
};

class Exchange {
 public:
  struct Parts {
    CallEngine& engine;
    const ProcessMap& map;
    FrameLoop& loop;
    ProgressFlags* flags = nullptr;  // of this process; null: it cannot be read
    Sums sums = Sums::exact;
  };
  explicit Exchange(const Parts& parts);

  /// Sets which processes read this one's memory and are read, by process. Called before any group is made.
  void set_neighbours(std::vector<std::optional<Neighbour>> neighbours) { neighbours_ = std::move(neighbours); }

  // The functions of Mover, for calls that reach other processes:
  void open(GroupCalls& calls);
  void begin(GroupCalls& calls, int64_t sequence);
  void begin_message(InFlight& message);
  void forget(GroupCalls& calls, int64_t sequence);
  /// All local members have passed so many gates.
  void pass(ExchangeGroup& group, int64_t sequence, int64_t gates);
  /// Reads the buffers of the send, where it has been found in a process that is read. PeerGone.
  bool read_message(EngineLock& lock, InFlight& recv);

  /// Null: the group does not reach other processes; it is not made here.
  ExchangeGroup* group_of(const GroupCalls& calls) const { return by_number_[static_cast<size_t>(calls.number())]; }
  ExchangeGroup* group_with(uint64_t id);

  // The chip that has the turn calls these (FrameLoop::Client):
  bool advance(EngineLock& lock);
  bool has_bytes_under_way() const;
  /// A frame of a call, and what another process calls instead.
  void on_frame(EngineLock& lock, int64_t process, const FrameHeader& header, std::span<const std::byte> bytes);
  void on_other_call(const FrameHeader& header, const std::string& text);
  /// A call here that wants something of this process; empty: none.
  std::string wanted_of(int64_t process);

 private:
  struct Active {
    ExchangeGroup* group = nullptr;
    int64_t sequence = 0;
  };
  struct Frame {
    int64_t process = 0;
    FrameHeader header;
  };

  bool send_data(EngineLock& lock, const Active& active, size_t other);
  bool is_finished(const Active& active);
  bool send_messages(EngineLock& lock);
  bool send_message(EngineLock& lock, const Frame& accepted, InFlight& send);
  void offer(InFlight& send);
  void match(int64_t chip, int64_t from, int64_t tag);
  void take_up(InFlight& recv, Frame offer);
  void on_arrived(const Frame& frame);
  void on_data(EngineLock& lock, const Frame& frame, std::span<const std::byte> bytes);
  void on_message(EngineLock& lock, const Frame& frame, std::span<const std::byte> bytes);
  void on_accept(const Frame& frame);
  void on_taken(const Frame& frame);
  void tell_call(const Frame& frame);
  InFlight& message_of(int64_t chip, int64_t number, const char* what);

  CallEngine& engine_;
  const ProcessMap& map_;
  FrameLoop& loop_;
  ProgressFlags* const flags_;
  const Sums sums_;
  std::vector<std::optional<Neighbour>> neighbours_;  // by process
  std::vector<ReadAddresses> read_;                   // the same: of sends from them
  PublishedAddresses offered_;                        // of sends to neighbours
  std::deque<ExchangeGroup> groups_;
  std::vector<ExchangeGroup*> by_number_;  // of groups of the engine
  std::vector<Frame> early_;               // `arrived` of groups that are not made here yet
  std::vector<Active> active_;             // calls that are open and not done, in the order of begin()
  std::vector<Frame> offers_;              // sends from other processes without a receive, oldest first
  std::vector<Frame> sending_;             // accepted sends
};

}  // namespace megacpp::collectives
