// SPDX-License-Identifier: Apache-2.0
// What the processes of a launch decide together, through a World: from which facts to plan, whether a run goes on
// after a step, and which rung of the ladder follows. None decides from what it alone sees: facts that differ between
// machines are those of the coordinator or the least of all, and what every process made of them is compared before
// step 0. All processes pass here in the same order; one that ends with an error aborts, so that none waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/machine_memory.h"
#include "megacpp/hardware/catalog/signature.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/runtime/machine_identity.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/run_hosts.h"

namespace megacpp::launch {

/// As the backend itself says it (runtime::Backend::require_devices).
void require_devices_of_backend(const recipe::Recipe& recipe);

/// How this process works with the other processes of the run.
struct ProcessOptions {
  collectives::Transport transport = collectives::inproc_transport();
  std::function<int64_t()> free_memory = {};  // bytes of this process's machine; empty: as the backend finds it
  /// The same beside the memory of devices.
  std::function<int64_t()> free_host_memory = [] { return base::available_memory_bytes(); };
  std::function<std::string()> machine = runtime::machine_identity;
  std::function<catalog::Build(const recipe::Recipe& recipe)> build = program_of;
  std::function<std::string()> architecture = runtime::machine_architecture;
  /// E1508 where the devices of the recipe's backend are not here.
  std::function<void(const recipe::Recipe& recipe)> require_devices = require_devices_of_backend;
};

/// How a process stands between two steps; of several processes the gravest counts.
enum class Status : uint8_t {
  going_on,
  stop_requested,
  out_of_memory,  // in the ladder's window: all go down
  failed,         // memory ran out after the window: all end
};

struct Standing {
  Status status = Status::going_on;
  std::vector<std::string> said;  // by process; empty of one that does not go on
};

/// Of the machines of all processes.
struct FreeMemory {
  int64_t least = 0;   // bytes: what the plan is for
  std::string uneven;  // "process 1 on node8 has 2.00 GiB, process 0 on node7 3.00 GiB"; empty: all have about as much
};

class Agreement {
 public:
  /// E3103 where processes were given different recipes or are of different builds.
  Agreement(const recipe::Recipe& requested, ProcessOptions options);

  const collectives::Transport& transport() const { return options_.transport; }
  /// Exactly one process is; it alone reads and writes the catalog.
  bool is_coordinator() const { return start_->is_coordinator(); }

  /// This process's number.
  int64_t process() const { return start_->process(); }
  /// Whether there is no other process.
  void require_devices(const recipe::Recipe& recipe) const { options_.require_devices(recipe); }
  bool is_alone() const { return start_->has_all_chips(); }
  /// The chips of this process.
  int64_t local_chips() const { return static_cast<int64_t>(start_->local_chips().size()); }
  /// Threads for this process, where its recipe does not say: its share of the cores of its machine.
  int core_share();
  /// The machine of every process; empty where that is not known.
  const std::vector<std::string>& hosts() const { return start_->hosts(); }
  /// The machines of all processes.
  std::vector<RunHost> hosts_of_run();
  FreeMemory free_memory();
  /// Processes that use the most crowded GPU, where this one sees those: they will be shared out alike when the run is
  /// loaded. E1504 as plugins::gpu_shares().
  int64_t gpu_sharers(const std::vector<std::string>& seen);
  int64_t least(std::string_view subject, int64_t value) { return world().agree_min(subject, value); }
  /// What `make` gives on the coordinator; it is called there alone.
  std::string from_coordinator(std::string_view subject, const std::function<std::string()>& make);
  /// Of the first process whose text is not empty.
  std::string first_of(std::string_view subject, std::string_view own);
  /// What every process says, by process.
  std::vector<std::string> of_all(std::string_view subject, std::string_view own) {
    return world().share(subject, own);
  }
  /// As on_all_processes().
  void on_all(std::string_view subject, const std::function<void()>& body) { on_all_processes(world(), subject, body); }
  /// Another world of the same processes, for a thread beside the steps, with the limit of steps. All make it together.
  std::unique_ptr<collectives::World> make_world() const;

  /// Called before every step, after the last, and by a process whose step ended with OutOfMemory or E3101.
  Status agree_status(Status here);
  /// The same, with what every process says in between.
  Standing agree_standing(Status here, std::string_view said);
  /// E3103 where processes arrived at different rungs, recipes, or bytes per chip.
  void same_estimate(size_t rung, const plan::Changes& changes, const fit::Estimate& estimate);
  /// E3103 where processes would start from other inputs (run_inputs.h).
  void same_inputs(const std::vector<collectives::Field>& fields) { world().agree_same("inputs", fields); }
  /// E3103 where processes are about to load other programs: passes switched off, nodes, or bytes per chip.
  void same_programs(const compile::Compiled& compiled, const std::vector<std::string>& without);

  /// As World::silent_successor, of the processes of the run.
  std::optional<std::string> silent_successor(std::chrono::milliseconds limit) {
    return steps_->silent_successor(limit);
  }

  void abort(const std::string& reason);
  /// Aborts when `decide` throws.
  template <typename Decide>
  auto together(const Decide& decide) {
    try {
      return decide();
    } catch (const std::exception& error) {
      abort(collectives::reason_of(error));
      throw;
    }
  }

 private:
  collectives::World& world() { return is_starting_ ? *start_ : *steps_; }

  ProcessOptions options_;
  collectives::WorldOptions world_options_;  // with the limit of steps
  // To agree in; a run makes its own.
  // With the limit of a start: others may still plan, compile or load. Those that do not answer end it sooner.
  std::unique_ptr<collectives::World> start_;
  std::unique_ptr<collectives::World> steps_;  // train.wait_limit
  bool is_starting_ = true;  // the same on all processes: from an estimate to the first status that all agree on
};

}  // namespace megacpp::launch
