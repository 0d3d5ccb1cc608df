// SPDX-License-Identifier: Apache-2.0
// A loaded run on all chips of a mesh: the programs of a chip over one arena each, ready to step. State is reached by
// chip and name; running a program never allocates and touches nothing outside the arenas.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/ir/graph.h"
#include "megacpp/runtime/counters.h"

namespace megacpp::runtime {

/// Bytes of one chip, planned and as the running program really used them.
struct ChipMemory {
  int64_t used_bytes = 0;   // held now
  int64_t limit_bytes = 0;  // it may use; without a limit of its own its share of the machine; 0: not known
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;  // end of the highest tensor any kernel was handed so far, with its alignment
};

/// The node that made a number which is not finite.
struct BadValue {
  int64_t chip = 0;
  std::string program;
  uint32_t node = 0;
  std::string op;
  std::string scope;
  std::string type;
};

/// When one node ran, in seconds since tracing began.
struct TraceEvent {
  const ir::Graph* program;
  uint32_t node;
  double start;
  double end;
};

/// Called on the chip's own thread, around each action of its step.
struct StepHooks {
  std::function<void(int64_t chip, const compile::Action&)> before = {};
  std::function<void(int64_t chip, const compile::Action&)> after = {};
  /// Look at every result, and throw NotFinite at the first NaN or infinity.
  bool check_values = false;
};

/// Thrown by run_step(); the run is over then.
struct NotFinite : std::exception {
  explicit NotFinite(BadValue bad) : value(std::move(bad)) {}
  const char* what() const noexcept override { return "a number that is not finite"; }
  BadValue value;
  compile::Action action = {};
};

class Executable {
 public:
  virtual ~Executable() = default;

  virtual int64_t chips() const = 0;  // of the mesh, on all processes
  /// The chips that this process runs, ascending. Everything below that names a chip means one of these.
  virtual const std::vector<int64_t>& local_chips() const = 0;
  /// All bytes of a chip's state tensor, in its storage dtype. An unknown name or another size is an internal error.
  virtual void write_state(const std::string& name, int64_t chip, std::span<const std::byte> bytes) = 0;
  virtual void read_state(const std::string& name, int64_t chip, std::span<std::byte> bytes) const = 0;
  /// Of a chip's state tensor; nothing where the chip has none of that name.
  virtual std::optional<int64_t> state_bytes(const std::string& name, int64_t chip) const = 0;
  /// One program on all chips, where all run the same ones. When a chip fails, the others stop too and its error is
  /// thrown; the run is over then.
  virtual void run(size_t program) = 0;
  /// Every chip runs its whole step, without waiting for the others but where they exchange something. Memory that
  /// runs out is memory::OutOfMemory, on every backend.
  virtual void run_step(const StepHooks& hooks) = 0;
  /// The bytes of an output of the program that ran last.
  virtual std::span<const std::byte> output(size_t program, const std::string& name, int64_t chip = 0) const = 0;
  float scalar_output(size_t program, const std::string& name, int64_t chip = 0) const;  // f32
  virtual ChipMemory memory(int64_t chip = 0) const = 0;

  /// What runs the programs: "cpu", or a plugin and the versions it names. Two runs compare only on the same path.
  virtual std::string path() const = 0;
  /// Compilations after compile::, transfers, waits; all zero where programs run in this process's own memory.
  virtual Counters counters() const { return {}; }

  /// Seconds spent per op since load, over all chips, when profiling is on.
  virtual std::vector<std::pair<std::string, double>> op_seconds() const = 0;
  /// What a chip did when, in the first steps, as many as loading asked for.
  virtual const std::vector<TraceEvent>& trace(int64_t chip) const = 0;
};

}  // namespace megacpp::runtime
