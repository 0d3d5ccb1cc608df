// SPDX-License-Identifier: Apache-2.0
// Texts by name that all processes of a run share, for libraries that find their peers by such a store: what one
// process puts, every process gets. A thread exchanges what is new in rounds of an agreement, often while somebody
// waits and seldom otherwise, so a process that ends or stops is noticed by all others too. Each says which name it
// waits for: where all of them wait, and nothing comes, no wait goes on beyond the limit.
// - All processes make it together, each with a world that nothing else uses.
// - Destroying it waits for the other processes to do the same, or for abort() on any of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/world.h"

namespace megacpp::collectives {

class KeyValues {
 public:
  /// `limit`: for the others to end it too, before this process aborts the world; and for waits of all processes at
  /// once.
  explicit KeyValues(std::shared_ptr<World> world, std::chrono::milliseconds limit = std::chrono::minutes(1));
  ~KeyValues();
  KeyValues(const KeyValues&) = delete;
  KeyValues& operator=(const KeyValues&) = delete;

  // From any thread. E3101 once the run has failed, on any process.

  /// A later value of the same name takes the place of an earlier one; of those that processes put in the same round
  /// that of the last process, on all of them.
  void put(const std::string& key, std::string value);
  /// Nothing where no process has put it within the limit, or within that of the store while all processes wait.
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds limit);
  /// What this process knows now.
  std::optional<std::string> try_get(const std::string& key);

  /// Ends it on all processes.
  void abort(const std::string& reason);
  /// Why the run has failed, as far as this process knows; empty: it has not.
  std::string failure();
  /// How far the processes are, for who waits in vain: "12 values, the last 'b'; process 0 waits for 'a', process 1 for
  /// none".
  std::string progress();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  void exchange();
  /// One round; false once all processes are closing.
  bool exchange_once(Lock& lock);
  void end_by(Lock& lock, const std::exception& error, const std::string& failure);
  /// Until the value is there, the run has failed or the limit is over, with word of it as often as the store's passes.
  void await(Lock& lock, const std::string& key, std::chrono::milliseconds limit);
  void require_alive() const;

  const std::shared_ptr<World> world_;  // shared with whoever made it, for its chips and processes
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;                // of all below
  std::condition_variable wanted_;  // the thread has something to say
  std::condition_variable news_;    // values came, or the run has failed
  std::map<std::string, std::string> values_;
  std::string last_key_;                                       // that any process has put
  std::vector<std::pair<std::string, std::string>> outgoing_;  // put here since the last round
  std::vector<std::string> awaited_;                           // keys of threads in get(), the oldest first
  std::vector<std::string> awaited_by_;                        // by process: the oldest, empty: none; of the last round
  std::optional<Clock::time_point> all_wait_since_;
  bool has_given_up_ = false;                 // some process, since all waited too long: what is missing stays so
  std::chrono::milliseconds pause_;           // between rounds; the same on all processes
  std::optional<Clock::time_point> closing_;  // since when
  std::string failure_;
  std::optional<base::Code> cause_;  // of it, as base::Problem has it
  std::thread thread_;               // last: it uses the members above
};

}  // namespace megacpp::collectives
