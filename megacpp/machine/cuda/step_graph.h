// SPDX-License-Identifier: Apache-2.0
// The step of all chips of a process, on however many GPUs, as one graph. Every chip enqueues on a stream of its own,
// on a thread of its own; once they have done so for real, the same is captured, all streams forked from that of the
// first chip and joined to it again, and from then on the step of all of them is one launch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/handles.h"

namespace megacpp::runtime::cuda {

class StepGraph {
 public:
  struct Options {
    const Driver& driver;
    size_t chips = 1;
    /// Whether a chip has failed and may never come: asked while others wait for it. Not needed for one chip.
    std::function<bool()> has_failed = {};
  };
  explicit StepGraph(const Options& options) : options_(options) {}
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// A chip with its stream, at load: its number for run(). The context of its GPU is current here and in all below.
  size_t join(Stream* stream);
  /// A step of this chip, on its thread: what `enqueue` puts on its stream. The first one runs as it comes: libraries
  /// load the code of their kernels at its first launch. The second is kept, and every call must mean the same. Chips
  /// wait for each other's threads, not for the device: E3101 once one has failed.
  void run(size_t chip, const std::function<void()>& enqueue);
  /// When a chip goes: none has another step.
  void release();

 private:
  struct Chip {
    Chip(Stream* own, const Driver& driver) : stream(own), mark(driver) {}

    Stream* stream;
    OwnedEvent mark;  // what this chip has enqueued; of the first one what all have
    bool has_run = false;
  };

  void record(size_t chip, const std::function<void()>& enqueue);
  void capture(const std::function<void()>& enqueue);
  void enqueue_captured(size_t chip, const std::function<void()>& enqueue);
  void keep_captured();
  void launch(size_t chip);
  void mark(size_t chip);
  void join_others();
  void wait_for_first(size_t chip);
  void arrive_and_wait();

  const Options options_;
  std::vector<Chip> chips_;
  GraphExec* step_ = nullptr;

  std::mutex mutex_;  // of what follows
  std::condition_variable all_arrived_;
  size_t arrived_ = 0;
  int64_t generation_ = 0;
};

}  // namespace megacpp::runtime::cuda
