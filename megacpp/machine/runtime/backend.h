// SPDX-License-Identifier: Apache-2.0
// One record per backend: everything that commands, planning and training must know of it. To add one: a file that
// makes its record, one line in recipe/backend_list.inc; kernels or a compiler of its own are its own matter. The list
// of all of them is backend_table.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/hardware/fit/hardware_target.h"
#include "megacpp/hardware/fit/lane.h"
#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/ignored_keys.h"
#include "megacpp/program/recipe/modes.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/run_request.h"
#include "megacpp/program/recipe/unsupported.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::runtime {

/// The mesh that programs are compiled for, as far as kernels and collectives depend on it.
struct TargetMesh {
  int64_t chips = 1;
  int threads = 1;          // of each chip
  int64_t local_chips = 0;  // of this process; 0: all
  collectives::Transport transport = collectives::inproc_transport();
};

/// What all processes of a run agreed on of their machines.
struct Machine {
  int64_t free_bytes = INT64_MAX;             // the least of all, where its chips share the machine's memory
  int64_t local_chips = 1;                    // the most of all: they share the machine
  std::function<hw::HostRates()> rates = {};  // that all plan with; empty: measured here
  std::string device_name = {};               // of the probe of that name; empty: not known
};

struct FoundHardware {
  hw::Slice slice;        // a chip's usable bytes are 0 where only its devices know them
  bool has_rates = true;  // without them nothing can be said of the time of a step
  std::string note = {};  // how it was found, or why not, where that goes by what devices call themselves
  int64_t sharers = 1;    // processes of the run that use the most crowded of its GPUs
};

/// The settings of a run that are the backend's own, as its start prints them.
struct RunSettings {
  std::string text;        // "2 threads"
  std::string lines = {};  // more of them, a line each
};

/// What this machine reaches when it runs a backend's programs: measured once and kept in a file.
struct HostRatesProbe {
  std::function<hw::HostRates()> kept;     // measured first where nothing is kept of this machine
  std::function<hw::HostRates()> renewed;  // measured anew and kept: E3001 where that fails
  std::function<std::filesystem::path()> file;
};

/// Something a backend runs through that this build does not contain: a plugin.
struct Platform {
  std::string name;                       // "cuda"; hardware that only its devices know is named so
  std::function<std::string()> identity;  // of the one found here, as Backend::identity has it
};

struct Backend {
  std::string name;  // as the recipe's key `backend` has it

  // ---- Where and what it runs
  /// Kinds of chips that it runs on.
  std::vector<hw::ChipKind> runs_on;
  /// What of a recipe it cannot run, and the only place that says so; empty: nothing.
  recipe::FindUnsupported cannot_run = {};
  /// Keys that its programs and runs do not depend on. Estimates may: they are made by our own passes.
  std::vector<recipe::IgnoredKey> ignores = {};
  /// Who places the collectives, where it knows more than one way; empty: one only.
  std::function<recipe::XlaPlacement(const recipe::RunRequest&)> placement = {};
  /// Whether it runs one node after the other, and so can check values, profile ops and trace. One that does not runs
  /// a step as one program.
  bool runs_node_by_node = true;
  /// Whether a step goes to its compiler as one StableHLO module, so that commands can show what becomes of it
  /// and what chip files say of compiled steps holds.
  bool emits_stablehlo = false;
  /// Whether it has a kernel of its own for an op; empty: its compiler makes what it runs.
  std::function<bool(std::string_view op)> has_kernel = {};
  /// Ways in which its chips exchange tensors; empty: its compiler's own.
  std::vector<std::string> transports = {};
  /// That each of several processes has: a process alone may have all. 0: any number.
  int64_t chips_of_process = 0;
  /// Whether its chips may be those of several processes, where its compiler moves tensors; no, with the reason.
  /// Empty: by its transports.
  std::function<base::Decision(const recipe::RunRequest&)> joins_processes = {};

  // ---- Compiling and loading
  /// What the compiler must know of it. E1505 where this build cannot run it.
  std::function<schedule::Target(const recipe::RunRequest&, const TargetMesh&)> target;
  /// The backend whose target estimates are compiled for; empty: its own, so that the programs of an estimate for this
  /// machine are those that run.
  std::string estimates_with = {};
  /// Loads what was compiled for target(). `compiled` must outlive the executable. memory::OutOfMemory when it does not
  /// fit; E1505 where this build cannot run it.
  std::function<std::unique_ptr<Executable>(const recipe::RunRequest&, const compile::Compiled&, const LoadOptions&)>
      load;

  // ---- Planning for chips that may be elsewhere
  /// The bytes that a step takes of a chip, with the terms they are made of; empty: what is planned, to the byte.
  fit::Reserve reserve = {};
  /// The part of a chip's usable memory that programs are served from, where so many processes use the chip; empty:
  /// all.
  std::function<double(const hw::Chip&, int64_t sharers)> pool_share = {};
  /// The recipe with what it leaves to such a chip, as a run there has it; empty: it leaves nothing.
  std::function<recipe::Recipe(const hw::Chip&, recipe::Recipe)> settled_on = {};
  /// What its compiler is given for such chips; empty: kernels of ours run there.
  std::function<std::optional<fit::XlaForms>(const recipe::RunRequest&, const hw::Slice&)> xla_forms = {};
  /// Whether blocks are in loops on such a chip, where lanes differ by it; empty: they do not.
  std::function<fit::LaneLoops(const recipe::RunRequest&, const hw::Chip&)> loops_on = {};
  /// Whether a plan may unroll the blocks of a recipe that leaves it open, since `reserve` knows what either takes.
  std::function<bool(const recipe::Recipe&, const hw::Chip&)> plan_may_unroll = {};
  /// Whether it compiles for such a chip where none is; empty: it does not.
  std::function<bool(const hw::Chip&)> compiles_ahead = {};

  // ---- Probes: nothing is loaded or run
  /// Whether it can run here, in this build and with the plugin that the recipe names.
  std::function<base::Decision(const recipe::RunRequest&)> usable;
  /// Throws what loading would throw for want of devices or of what reaches them. No probe: it runs on any machine.
  std::function<void(const recipe::RunRequest&)> require_devices = {};
  /// Threads of this process that its virtual chips share.
  std::function<int(const recipe::RunRequest&)> threads;
  /// Bytes that a new program may use of what its chips share; absent: only its devices know.
  std::function<std::optional<int64_t>(const recipe::RunRequest&)> free_bytes;
  /// Of this machine, for one that runs on a host; else empty.
  HostRatesProbe host_rates = {};
  /// What the devices of this machine that a run of the recipe is on call themselves, as chip files have it: "NVIDIA
  /// H200"; empty: they do not say so before they are started. No probe: it has no devices of its own.
  std::function<std::string(const recipe::RunRequest&)> device_name = {};
  /// The UUIDs of the GPUs that this process sees, for one whose processes share these out as plugins/gpu_shares does
  /// and have a pool each on a GPU that they share. None where it cannot tell; empty: no other backend need know.
  std::function<std::vector<std::string>(const recipe::RunRequest&)> visible_gpus = {};
  /// The hardware that a run of the recipe is on. E1601, E1602 for a target that is none; E1603 for a chip file of the
  /// user's that has the name of the devices and is malformed.
  std::function<FoundHardware(const recipe::RunRequest&, const Machine&)> find_hardware;
  /// What decides how its programs compute, beside our own sources: plugin and driver. Runs are comparable only with
  /// the same. Empty: nothing else.
  std::function<std::string(const recipe::RunRequest&)> identity;
  /// All that its runs can go through, whichever a recipe names; empty: this build has everything it needs.
  std::vector<Platform> platforms = {};

  // ---- Records
  /// Words of its own settings that change memory or time, for signatures: "placement=xla".
  std::function<std::vector<std::string>(const recipe::RunRequest&)> features = {};
  std::function<RunSettings(const recipe::RunRequest&)> settings;
  /// The same as members of a run's summary; empty: none.
  std::function<base::Json(const recipe::RunRequest&)> settings_json = {};
};

/// The threads that are asked for, or all cores.
int threads_for(const recipe::RunRequest& request);

/// What each of so many chips of a process gets of its threads; at least one.
int threads_per_chip(int threads, int64_t local_chips);

/// What processes agree on it by: the least of all, since one plan serves them all.
inline constexpr const char* kThreadsOfAChip = "threads of a chip";

/// With all chips in this process.
TargetMesh mesh_here(const recipe::RunRequest& request, int64_t chips);

/// Options of loading that a run asks for: threads, waits, limits and faults of its chips.
LoadOptions load_options(const recipe::RunRequest& request, int64_t chips);

}  // namespace megacpp::runtime
