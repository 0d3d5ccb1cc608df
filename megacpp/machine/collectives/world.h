// SPDX-License-Identifier: Apache-2.0
// The chips of a run, of which this process owns some, and the processes that own the rest. Chips exchange tensors
// through communicators; processes agree on decisions that all of them must take alike (how much memory is free, which
// rung of the ladder), so that none of them decides from what it alone sees.
// - All processes make their worlds together (Transport::make) and agree on the same subjects in the same order.
// - A world that was aborted is over: calls and agreements end with E3101 on every chip, and nobody is left waiting.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/collectives/communicator.h"

namespace megacpp::collectives {

enum class Ordering : uint8_t {
  host,    // a call completes inside finish(): its streams are host threads
  stream,  // start() and finish() order on a stream of the device and return at once
};

/// What holds for every world of a transport.
struct Properties {
  std::string_view name;
  /// Sums are added in the order of the group's indices: the same bits in every run, over any number of processes. All
  /// members of an all_reduce get the same bits in any case.
  bool has_fixed_order_sums = false;
  Ordering ordering = Ordering::host;
};

/// The longest wait for a process that plans, compiles or loads, and answers meanwhile: these take as long as they
/// take, but one that hangs answers too. `limit`: for a process that does not answer.
constexpr std::chrono::milliseconds start_limit(std::chrono::milliseconds limit) {
  return std::max<std::chrono::milliseconds>(std::chrono::hours(1), 10 * limit);
}

struct WorldOptions {
  int64_t chips = 1;
  std::chrono::milliseconds wait_limit = std::chrono::minutes(10);  // longest wait without any progress of the waiter
  std::vector<int64_t> order = {};  // chips as they are dealt to processes (placement.h); empty: by number
  /// Longest wait for another process in an agreement, as long as it answers; nothing: wait_limit. start_limit() where
  /// processes agree while they plan, compile or load.
  std::optional<std::chrono::milliseconds> agreement_limit = {};
  /// Longest silence of another process that an agreement waits for, however long it may take: one that computes
  /// answers, one that is stopped or cut off does not. Of one that answers there is word as often (long_wait.h).
  std::chrono::milliseconds answer_limit = std::chrono::minutes(10);
  /// Longest wait for all processes to make this world; who has not come cannot answer yet.
  std::chrono::milliseconds join_limit = std::chrono::minutes(10);
};

/// One of the values that processes compare: {"train.batch", "8"}.
struct Field {
  std::string name;
  std::string value;
};

class World {
 public:
  virtual ~World() = default;

  virtual const Properties& properties() const = 0;
  virtual int64_t chips() const = 0;
  /// The chips of this process, ascending; at least one.
  virtual const std::vector<int64_t>& local_chips() const = 0;
  /// Of a local chip; owned by the world.
  virtual Communicator& communicator(int64_t chip) = 0;
  /// As Communicator::abort of a local chip, from any thread.
  virtual void abort(int64_t chip, const std::string& reason) = 0;

  /// Whether a chip of any process has failed, as far as this one knows; from any thread.
  virtual bool has_failed() = 0;

  /// Asks the process after this one for a sign: its name where none comes within the limit, and nothing has failed
  /// yet. From any thread. Every process asking one, who is silent is found at the cost of a message each.
  virtual std::optional<std::string> silent_successor(std::chrono::milliseconds limit);

  /// This process's number, from 0.
  virtual int64_t process() const { return 0; }
  /// The machine of every process, by process; empty where that is not known.
  virtual const std::vector<std::string>& hosts() const;

  /// How tensors get from process to process: "memory read", "tensors sent"; empty where there is one way alone.
  virtual std::string path_of_tensors() const { return ""; }

  /// Whether this process owns chip 0. Exactly one does: it writes what all processes share.
  bool is_coordinator() const { return local_chips().front() == 0; }
  /// Whether no other process takes part.
  bool has_all_chips() const { return static_cast<int64_t>(local_chips().size()) == chips(); }

  /// What every process passes (text or bytes), by process; the coordinator is process 0.
  std::vector<std::string> share(std::string_view subject, std::string_view value);
  /// All processes have the same fields, or all get E3103, which names the processes and the fields that differ. They
  /// compare digests, and send the fields themselves only where these differ.
  void agree_same(std::string_view subject, std::span<const Field> fields);
  /// The least of all processes' values.
  int64_t agree_min(std::string_view subject, int64_t value);
  /// Whether the value is true on any process.
  bool agree_any(std::string_view subject, bool value);

 protected:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// What every process passed, by process, once all have come. E3101 when a chip failed, E3102 beyond the limit.
  virtual std::vector<std::string> gather(const std::string& own) = 0;

 private:
  struct Statement;
  std::vector<Statement> statements(std::string_view subject, std::string_view value);
  [[noreturn]] static void refuse_different(const std::vector<Statement>& all);
};

/// What a run's path says of the processes that its chips are in: ", 4 processes over mpi, memory read, exact sums".
/// Nothing where one has all of them. Runs compare on the same path alone: between processes tensors take another, and
/// sums may have another order.
std::string path_over_processes(const World& world);

}  // namespace megacpp::collectives
