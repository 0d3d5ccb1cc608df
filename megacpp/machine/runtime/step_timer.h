// SPDX-License-Identifier: Apache-2.0
// Where the time of a chip's steps goes: seconds by part and by op, and when each node ran. Calls that are done when
// they return are timed by the host's clock. Those of a queue are timed by marks on the device's own clock, and only
// where that is asked for: a step with marks cannot be replayed, and its host waits for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "megacpp/machine/runtime/chip_device.h"
#include "megacpp/machine/runtime/executable.h"

namespace megacpp::runtime {

class StepTimer {
 public:
  struct Options {
    bool per_op = false;
    /// Keep when each call of so many first steps began and ended, in seconds since a moment common to all chips.
    int64_t trace_steps = 0;
    std::chrono::steady_clock::time_point trace_from = {};
  };

  /// A piece of a step and what its time counts as.
  struct Piece {
    double StepParts::*part = &StepParts::memory;
    const ir::Graph* program = nullptr;  // of a node; null: of none
    uint32_t node = 0;
    size_t op = 0;  // of the node, as op_number() gave it, by kind of program and op
  };

  /// `queue` is the device's and outlives it; null: calls are done when they return.
  StepTimer(DeviceQueue* queue, const Options& options) : queue_(queue), options_(options) {}

  size_t op_number(std::string_view program, std::string_view op);
  /// Asked for once, at load: the most pieces of a step, and the calls of nodes among them.
  void reserve(size_t pieces, size_t calls);

  /// Whether steps are timed at all.
  bool is_on() const { return queue_ == nullptr || uses_marks(); }
  void begin_step();
  template <typename Work>
  void time(const Piece& piece, const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    if (queue_ == nullptr)
      count(piece, start, std::chrono::steady_clock::now());
    else if (uses_marks())
      end_marked(piece);
  }
  /// Waits for the queue, where the step has marks.
  void end_step();

  /// These two since load or since they were cleared.
  const StepParts& parts() const { return parts_; }
  void clear() {
    parts_ = {};
    for (OpSeconds& op : ops_) op.seconds = 0;
  }
  const std::vector<OpSeconds>& op_seconds() const { return ops_; }
  const std::vector<TraceEvent>& trace() const { return trace_; }

 private:
  using Moment = std::chrono::steady_clock::time_point;

  bool uses_marks() const { return queue_ != nullptr && (options_.per_op || options_.trace_steps > 0); }
  void count(const Piece& piece, Moment start, Moment end);
  void add(const Piece& piece, double start, double end);
  void end_marked(const Piece& piece);

  DeviceQueue* queue_;
  Options options_;
  StepParts parts_;
  std::vector<OpSeconds> ops_;
  std::vector<TraceEvent> trace_;  // never more than it has capacity for from the start
  std::vector<Piece> marked_;      // of this step, between marks i and i + 1
  size_t most_marked_ = 0;
  double begin_ = 0;  // of the step, in seconds since trace_from
};

}  // namespace megacpp::runtime
