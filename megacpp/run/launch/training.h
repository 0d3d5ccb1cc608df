// SPDX-License-Identifier: Apache-2.0
// A prepared launch trained to its end. Memory that runs out in the ladder's window sends all chips to the next rung
// and starts again; outside it the run ends with a report. Before every step the processes of a run tell each other how
// they stand: a stop that one of them is given stops all after the same step, and what ends one ends all. One process
// stops after a micro-step, where its backend runs them one by one. Settings that passed step 0 are remembered then.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "megacpp/core/base/machine_memory.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/data/source.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/run_measures.h"
#include "megacpp/run/launch/start.h"
#include "megacpp/run/train/train.h"

namespace megacpp::launch {

struct TrainingOptions {
  StartOptions start = {};
  /// Where the log and checkpoints go; none: nowhere. Of several processes the coordinator's: the others have none.
  RunDirectory* directory = nullptr;
  const checkpoint::Reader* checkpoint = nullptr;  // to go on from; none: from step 0
  /// Called when a rung is loaded, with its state, and the first step follows.
  std::function<void(const StartedRun&)> before_steps = {};
  /// Of what start.fill_state starts from, where it is no checkpoint to go on from: files, each with a digest. Asked of
  /// processes that compare their inputs. Empty: weights are drawn.
  std::function<std::vector<collectives::Field>()> weights = {};
  bool check_nans = false;
  std::function<void(const train::StepReport&)> after_log = {};
  std::function<bool()> should_stop = {};  // on this process; called before every step, and as LoadOptions
  /// That this host has left for the snapshot of checkpoints, asked when step 0 has ended.
  std::function<int64_t()> free_host_bytes = [] { return base::available_memory_bytes(); };
  /// With a process that does not answer when this one should stop (silent_process_watch.h). Called on a thread of its
  /// own, on which should_stop is then asked as well.
  std::function<void(const std::string& process)> on_silent = {};
};

/// Programs that a backend made, by how.
struct ProgramCounts {
  int64_t compiles = 0;
  int64_t cache_hits = 0;
};

/// Holds programs of the launch, which must outlive it.
struct Trained {
  StartedRun started;
  std::vector<train::StepReport> reports;
  ProgramCounts late_programs;  // made after step 0, when a run should have all it needs
  bool was_stopped = false;     // on request of any process
  int64_t first_step = 0;       // this many were done before
  int64_t saves = 0;            // checkpoints
  double blocked_seconds = 0;   // that steps waited for checkpoints
  int64_t loaded_bytes = 0;     // of the checkpoint it went on from
  int64_t read_bytes = 0;       // from its files: to compare checksums, and to copy
  RunMeasures measures = {};    // of all processes
};

Trained run_training(Launch& launch, const data::TokenSource& source, const TrainingOptions& options = {});

}  // namespace megacpp::launch
