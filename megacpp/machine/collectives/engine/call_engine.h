// SPDX-License-Identifier: Apache-2.0
// The calls of all chips of one process, from start to finish, for every transport: who has posted what, which send
// belongs to which receive, who waits how long for whom, and the failure that ends all of them. What moves the bytes is
// a Mover, what other processes have to do with it OtherProcesses (mover.h).
// - A call is posted by start(). Members of a group post the same calls in the same order, and who differs is told. A
//   send and a receive find each other by chips and tag, the oldest first.
// - finish() waits until the call is complete, and makes the chip's share of all its calls in flight meanwhile.
// - One lock guards all of it. Waiting sleeps, but for what a mover has to do.
// - Nothing is allocated after groups are made and messages reserved.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/engine/chip_calls.h"
#include "megacpp/machine/collectives/engine/mover.h"

namespace megacpp::collectives {

class CallEngine {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    int64_t chips = 1;           // of the mesh
    std::vector<int64_t> local;  // of this process, ascending
    std::chrono::milliseconds wait_limit{};
  };
  explicit CallEngine(Options options);
  ~CallEngine();
  /// Before any call. They outlive all calls.
  void attach(Mover& mover, OtherProcesses* others = nullptr);

  const std::vector<int64_t>& local() const { return options_.local; }
  int64_t chips() const { return options_.chips; }
  std::chrono::milliseconds wait_limit() const { return options_.wait_limit; }
  bool is_local(int64_t chip) const { return chip >= 0 && chip < chips() && chips_[static_cast<size_t>(chip)]; }
  /// The calls of a local chip.
  ChipCalls& at(int64_t chip) const;
  /// From any thread, the lock held or not.
  bool has_failed() const { return has_failed_; }
  /// Raises E3101 after a failure. Without the lock.
  void require_alive(int64_t chip, const std::string& where);

  // The rest is called with the lock held.
  std::mutex mutex;

  /// The first failure counts: of all processes, where there are several. Returns when nobody here moves data, so that
  /// the buffers of the caller may go, and does not wait for the others.
  void fail(EngineLock& lock, const Failure& failure);
  /// The failure that counts has been found.
  void decide(const Failure& failure);
  /// The same in the words of another world, as it raised E3101.
  void decide(const base::Problem& told);
  bool is_decided() const { return decided_.has_value(); }
  /// E3101 after a failure.
  void check_alive(EngineLock& lock, int64_t chip, const std::string& where);
  /// Ends the run by an error of this chip. Of failures at once in several processes one counts, and whoever has
  /// another learns of it.
  [[noreturn]] void fail_with(EngineLock& lock, int64_t chip, base::Code code, const base::Problem& problem);

  /// Runs `move`, which reads the buffers of chips, without the lock, which is not held while data moves.
  template <typename Move>
  void without_lock(EngineLock& lock, const Move& move) {
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

  void wake(int64_t chip) { at(chip).wake(); }
  void wake_all();
  void wake_members(const GroupCalls& group);
  /// A chip that waits for what another was to look after; false where none does.
  bool wake_waiting();
  /// The oldest send or receive whose other end is one of these chips; null: none.
  const InFlight* oldest_message_with(const std::vector<int64_t>& chips) const;

  // Chips call these:
  GroupCalls& group_calls(const std::vector<int64_t>& members, int64_t chip);
  Mover& mover() const { return *mover_; }
  OtherProcesses* others() const { return others_; }

 private:
  const Failure& decided_failure(EngineLock& lock, int64_t chip);
  void end_move(EngineLock& lock) {
    lock.lock();
    if (--moving_ == 0) still_.notify_all();
  }

  const Options options_;
  Mover* mover_ = nullptr;
  OtherProcesses* others_ = nullptr;               // null: all chips are of this process
  std::vector<std::unique_ptr<ChipCalls>> chips_;  // by chip of the mesh; null: of another process
  std::deque<GroupCalls> groups_;
  std::atomic<bool> has_failed_ = false;
  std::optional<Failure> proposed_;    // the first from here
  std::optional<Failure> decided_;     // that of all processes
  std::optional<base::Problem> told_;  // how another world has said it
  std::condition_variable decision_;   // there is one
  int64_t moving_ = 0;                 // threads that move data
  std::condition_variable still_;      // none does
};

}  // namespace megacpp::collectives
