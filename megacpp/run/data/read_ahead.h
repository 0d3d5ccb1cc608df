// SPDX-License-Identifier: Apache-2.0
// Micro-batches filled by a thread ahead of the steps that read them, in a bounded ring. All memory is taken when it is
// made. A step that finds its micro-batch unfinished waits, and is counted as a stall. What filling throws is thrown
// by next(), in its turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "megacpp/run/data/batches.h"

namespace megacpp::data {

/// Micro-batches that were waited for, after the first of the run, and for how long.
struct Stalls {
  int64_t count = 0;
  double seconds = 0;
};

struct ReadAheadOptions {
  int64_t first_step = 0;
  int64_t end_step = 0;     // one behind the last
  int64_t micro_steps = 1;  // per step
  MicroBatch like = {};     // the sizes of what is filled
  int64_t steps_ahead = 2;
};

class ReadAhead {
 public:
  using Fill = std::function<void(int64_t step, int64_t micro_step, MicroBatch& micro)>;

  /// `fill` runs on the thread, in order, one call at a time.
  ReadAhead(Fill fill, const ReadAheadOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next micro-batch of the run, valid until the next call.
  const MicroBatch& next();

  /// Since the last call.
  Stalls take_stalls();

 private:
  void run();

  Fill fill_;
  ReadAheadOptions options_;
  std::vector<MicroBatch> ring_;
  std::mutex mutex_;
  std::condition_variable filled_changed_, taken_changed_;
  int64_t filled_ = 0;    // micro-batches that are ready, since the start
  int64_t released_ = 0;  // and whose slot may be filled again
  int64_t taken_ = 0;     // and that next() has returned; only the reader's
  bool stopped_ = false;
  std::exception_ptr failure_;
  Stalls stalls_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace megacpp::data
