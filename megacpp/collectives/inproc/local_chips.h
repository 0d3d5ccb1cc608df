// SPDX-License-Identifier: Apache-2.0
// The chips of one process: every chip is a thread, and members of a group read straight from each other's buffers. A
// call is posted by start(), and each member does its share of all its calls in flight whenever it is inside finish().
// Sums are added in the order of the group. Waiting sleeps, but for the first millisecond of the one chip that looks
// for what other processes send. Nothing is allocated after the groups are made, in one process; over several nothing
// after the first call of each record (buffer_addresses.h). What goes to chips of other processes is the matter of
// Crossings, if there are any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/collectives/communicator.h"
#include "megacpp/collectives/failure.h"
#include "megacpp/collectives/inproc/rendezvous.h"

namespace megacpp::collectives {

class Crossings;

class LocalChips {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  struct Options {
    int64_t chips = 1;           // of the mesh
    std::vector<int64_t> local;  // of this process, ascending
    std::chrono::milliseconds wait_limit{};
  };
  explicit LocalChips(Options options);
  ~LocalChips();
  /// Before any call. Without, all chips of the mesh are local.
  void attach(Crossings& crossings) {
    const std::lock_guard guard(mutex);
    crossings_ = &crossings;
  }

  const std::vector<int64_t>& local() const { return options_.local; }
  int64_t chips() const { return options_.chips; }
  std::chrono::milliseconds wait_limit() const { return options_.wait_limit; }
  Communicator& communicator(int64_t chip);

  // The rest is called with the lock held. One lock guards all of it, and the calls in flight of every chip; it is not
  // held while data moves.
  std::mutex mutex;

  /// The first failure counts: of all processes, where there are several. Returns when nobody here moves data, so that
  /// the buffers of the caller may go, and does not wait for the others.
  void fail(Lock& lock, const Failure& failure);
  /// The failure that counts has been found.
  void decide(const Failure& failure);
  bool is_decided() const { return decided_.has_value(); }
  bool has_failed() const { return proposed_ || decided_; }
  /// Which one it is. Where no other process says so in time, the one from here.
  const Failure& decided_failure(Lock& lock);
  /// E3101 after a failure.
  void check_alive(Lock& lock, int64_t chip, const std::string& where);

  /// Runs `move`, which reads the buffers of chips, without the lock.
  template <typename Move>
  void without_lock(Lock& lock, const Move& move) {
    ++moving_;
    lock.unlock();
    try {
      move();
    } catch (...) {
      end_move(lock);
      throw;
    }
    end_move(lock);
  }

  bool is_local(int64_t chip) const;
  void wake(int64_t chip);
  void wake_all();
  /// A chip that waits for what another was to look after; false where none does.
  bool wake_waiting();
  std::string what_it_does(int64_t chip) const;
  /// Null where the call is finished.
  InFlight* in_flight(int64_t chip, int64_t number);
  /// A receive of `chip` that nothing was found for.
  InFlight* oldest_receive(int64_t chip, int64_t from, int64_t tag);
  /// The oldest send or receive whose other end is one of these chips; null: none.
  const InFlight* oldest_message_with(const std::vector<int64_t>& chips) const;

 private:
  class Chip;
  Chip& at(int64_t chip) const { return *chips_[static_cast<size_t>(chip)]; }
  GroupCalls& group_calls(const std::vector<int64_t>& members);
  void end_move(Lock& lock) {
    lock.lock();
    if (--moving_ == 0) still_.notify_all();
  }

  const Options options_;
  Crossings* crossings_ = nullptr;
  std::vector<std::unique_ptr<Chip>> chips_;  // by chip of the mesh; null: of another process
  std::deque<GroupCalls> groups_;
  std::optional<Failure> proposed_;   // the first from here
  std::optional<Failure> decided_;    // that of all processes
  std::condition_variable decision_;  // there is one
  int64_t moving_ = 0;                // threads that move data
  std::condition_variable still_;     // none does
};

}  // namespace megacpp::collectives
