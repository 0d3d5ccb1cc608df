// SPDX-License-Identifier: Apache-2.0
// How a compiled run is loaded: the same for every backend. What a backend has no use for it leaves alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/flight/flight_recorder.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/runtime/fault_injection.h"

namespace megacpp::runtime {

struct LoadOptions {
  int threads = 1;                                             // of this process, divided among its chips
  bool profile = false;                                        // keep seconds per op
  int64_t trace_steps = 0;                                     // keep when every node ran in so many first steps
  std::chrono::seconds wait_limit = std::chrono::minutes(10);  // for another chip in a step, before E3102
  /// Makes the world of the run, where chips are not a plugin's; programs were compiled for the same.
  collectives::Transport transport = collectives::inproc_transport();
  /// Keeps the last calls of local chips, by backends whose chips call a transport; none: nobody does.
  std::shared_ptr<collectives::FlightRecorder> flight = {};
  /// Called on a thread of its own where a step does not end although the run has failed, because a chip hangs outside
  /// a call: to say so and end the process. None: nobody watches.
  std::function<void(const base::Error& error)> on_hang = {};
  /// Called on the threads of chips before each micro-step, by backends that run them one by one; true: run_step() ends
  /// with StoppedInStep. What runs a step as one program does not call it.
  std::function<bool()> should_stop_in_step = {};
  /// Bytes of its host's memory that a process with these chips takes once it is loaded, for checkpoints; none: it
  /// saves none. Looked at where chips have memory of their own.
  std::function<int64_t(const std::vector<int64_t>& chips)> snapshot_bytes = {};
  std::vector<int64_t> limits = {};       // bytes by chip, 0: none of its own; empty: none at all
  Faults faults = {};                     // allocations that are to fail
  std::vector<std::string> fetches = {};  // outputs to keep for fetch(), besides the metrics
};

/// The world that a run is loaded into. Its agreements are those of loading, which takes longer on one process than on
/// another (an algorithm is searched, a kernel compiled), and have start_limit() while processes answer; what does not
/// come, does not answer, or does not come to a call of a step has wait_limit.
collectives::WorldOptions world_of_run(const ir::Mesh& mesh, const LoadOptions& options);

}  // namespace megacpp::runtime
