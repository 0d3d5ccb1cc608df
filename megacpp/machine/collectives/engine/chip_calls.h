// SPDX-License-Identifier: Apache-2.0
// One chip's end of a call engine: its groups, the calls that it has in flight, and its waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/communicator.h"
#include "megacpp/machine/collectives/engine/mover.h"

namespace megacpp::collectives {

class CallEngine;

class ChipCalls final : public Communicator {
 public:
  ChipCalls(CallEngine& engine, int64_t rank) : engine_(engine), rank_(rank) {}

  int64_t rank() const override { return rank_; }
  int64_t chips() const override;
  const Group& create_group(const std::vector<int64_t>& members) override;
  void reserve_messages(int64_t count) override;
  Ticket start(const Call& call, Stream stream) override;
  void finish(Ticket ticket, Stream stream) override;
  void abort(const std::string& reason) override;

  // With the engine's lock held:
  /// Room for so many more calls in flight.
  void add_idle(int64_t count);
  void wake() { wake_.notify_one(); }
  bool is_waiting() const { return is_waiting_; }
  /// In the order of start.
  const std::list<InFlight>& active() const { return active_; }
  const Call* oldest_call() const { return active_.empty() ? nullptr : active_.front().call; }
  /// Null where the call is finished.
  InFlight* in_flight(int64_t number);
  /// A call that this chip has posted; it is a member of the group.
  InFlight& in_flight(const GroupCalls& group, int64_t sequence);
  /// The oldest that has not found its other end; null: there is none.
  InFlight* oldest_message(Kind kind, int64_t peer, int64_t tag);

 private:
  struct OwnGroup {
    Group group;
    GroupCalls& calls;
    int64_t started = 0;
  };

  void check_limit(const Call& call) const;
  void post(EngineLock& lock, InFlight& started);
  void post_message(EngineLock& lock, InFlight& started);
  void wait_until_complete(EngineLock& lock, InFlight& finished);
  bool advance(EngineLock& lock);
  void sleep(EngineLock& lock, std::chrono::steady_clock::time_point deadline);
  void check_agreement(EngineLock& lock);
  [[noreturn]] void mismatch(EngineLock& lock, const Call& own, const std::string& other);
  void time_out(EngineLock& lock, const InFlight& in_flight);

  CallEngine& engine_;
  const int64_t rank_;
  std::condition_variable wake_;  // something this chip may wait for has happened
  std::deque<OwnGroup> groups_;   // by Group::id
  std::list<InFlight> active_;
  std::list<InFlight> idle_;  // unused nodes: they change lists, so that starting a call allocates nothing
  bool is_waiting_ = false;   // asleep until it is woken
  int64_t message_limit_ = kMaxInFlight;
  int64_t next_number_ = 0;
};

}  // namespace megacpp::collectives
