// SPDX-License-Identifier: Apache-2.0
// A loaded run on all chips of a mesh, ready to step. The host writes and reads state by the compiled run's table,
// stages the micro-batches of a step, runs it, and fetches named outputs where it wants to see them. Between staging
// and fetching the host has no part in a step: a backend may run it as one program and need not be waited for.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/base/timed_part.h"
#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/machine/runtime/counters.h"
#include "megacpp/machine/runtime/fill_piece.h"
#include "megacpp/machine/runtime/step_ports.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::runtime {

/// Bytes of one chip in another tier than its device's, likewise.
struct TierUse {
  ir::Tier tier = ir::Tier::host;
  int64_t planned_bytes = 0;
  int64_t measured_bytes = 0;

  bool operator==(const TierUse&) const = default;
};

/// Bytes of one chip, planned and as the running program really used them. What a backend does not know is absent.
struct ChipMemory {
  std::optional<int64_t> used_bytes = {};   // held now
  std::optional<int64_t> limit_bytes = {};  // it may use; without a limit of its own its share of the machine
  std::optional<int64_t> planned_peak_bytes = {};
  std::optional<int64_t> measured_peak_bytes = {};  // end of the highest tensor any kernel was handed so far, aligned
  std::vector<TierUse> away = {};                   // of other tiers that the plan has something in

  /// The use of one tier; zeros where the plan has nothing there.
  TierUse in(ir::Tier tier) const;
  bool operator==(const ChipMemory&) const = default;
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

/// What the nodes of one op took, in programs of one kind.
struct OpSeconds {
  std::string program;  // its kind: "micro_step", "update"
  std::string op;
  double seconds = 0;
};

/// Where the time of a step went, as a chip measured it. The parts sum to the step.
struct StepParts {
  double arithmetic = 0;  // seconds in kernels that do many operations on each byte: products, attention, scans
  double memory = 0;      // in all other kernels and in copies
  double links = 0;       // in collectives, waiting for members included, and for copies from and to the host
  double bubble = 0;      // in sends and receives between the stages of a pipeline, waiting included
  double other = 0;       // in none of these: handing work to the chip, waiting for slower chips at the end

  double seconds() const { return arithmetic + memory + links + bubble + other; }
  /// In work of its own, without waiting for others.
  double busy() const { return arithmetic + memory; }
};

/// The chip that works longest in a step: chips that exchange something wait for it.
struct BusyChip {
  int64_t chip = 0;
  double seconds = 0;  // of a step, in work of its own
};

enum class StepMode : uint8_t {
  plain,
  check_values,  // look at every result, and throw NotFinite at the first NaN or infinity
};

/// Thrown by run_step(); the run is over then.
struct NotFinite : std::exception {
  explicit NotFinite(BadValue bad) : value(std::move(bad)) {}
  const char* what() const noexcept override { return "a number that is not finite"; }
  BadValue value;
  compile::Action action = {};
};

/// Thrown by run_step() between two micro-steps, where LoadOptions::should_stop_in_step says so. The run is over then;
/// the weights are those of the last whole step.
struct StoppedInStep : std::exception {
  const char* what() const noexcept override { return "stopped on request"; }
};

class Executable {
 public:
  /// `compiled` must outlive it. `fetches` as for step_ports().
  Executable(const compile::Compiled& compiled, const std::vector<std::string>& fetches);
  virtual ~Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  virtual int64_t chips() const { return compiled_.mesh.chips(); }  // of the mesh, on all processes
  /// The chips that this process runs, ascending. Everything below that names a chip means one of these.
  virtual const std::vector<int64_t>& local_chips() const = 0;
  /// What a chip holds; only tensors that are kept between steps can be written and read.
  std::span<const compile::StateTensor> state(int64_t chip) const { return compiled_.programs_of(chip).state; }

  /// All bytes of a chip's part of a state tensor, in its storage dtype. E1203 for a name that is not in the table, for
  /// one that is not kept between steps, and for another size, on every backend.
  void write_state(const std::string& name, int64_t chip, std::span<const std::byte> part);
  void read_state(const std::string& name, int64_t chip, std::span<std::byte> part) const;
  /// The same as write_state() for bytes that are not there yet: `fill` makes them where the device takes them from.
  /// E1203 as there.
  void fill_state(const std::string& name, int64_t chip, const FillPiece& fill);
  /// What the backend really holds of a kept tensor; nothing where the chip has none of that name.
  virtual std::optional<int64_t> state_bytes(const std::string& name, int64_t chip) const = 0;

  /// A chip's part of a batch input ("batch.ids", "lr") for one micro-step; it stays until it is staged again. Inputs
  /// that are the same for the whole step have micro-step 0 only. The bytes are free for reuse when this returns. E1203
  /// for a name or a micro-step the chip's step does not have, and for another size.
  void stage_batch(const std::string& name, int64_t micro, int64_t chip, std::span<const std::byte> part);
  bool stages(const std::string& name, int64_t chip) const;

  /// Every chip runs its whole step on what is staged, without waiting for the others but where they exchange
  /// something; may return before the devices are done. When a chip fails, the others stop too and its error is thrown,
  /// here or where the host next waits; the run is over then. Memory that runs out is memory::OutOfMemory.
  virtual void run_step(StepMode mode) = 0;

  /// Whether run_step() returns only once all chips are done: every step can then be timed, and waiting for it is part
  /// of the path. Else the host runs ahead of its devices, and any wait between two fetches is one too many.
  virtual bool waits_for_steps() const { return false; }

  /// Ends the run on all processes, this one included, for a process that cannot go on: whoever waits for its chips,
  /// or will, gets E3101. Without effect on a backend whose chips wait for each other outside a transport.
  virtual void abort(const std::string& /*reason*/) {}

  /// Waits for the device. The output as the last step left it: one chip's part for each micro-step, one behind the
  /// other, in order; outputs of the update once. E1203 for a name that the chip does not make or that loading did not
  /// ask for.
  std::vector<std::byte> fetch(const std::string& name, int64_t chip) const;
  std::vector<float> fetch_f32(const std::string& name, int64_t chip) const;
  /// The same without allocating. E1203 for another size.
  void fetch_into(const std::string& name, int64_t chip, std::span<std::byte> values) const;
  bool fetches(const std::string& name, int64_t chip) const;

  virtual ChipMemory memory(int64_t chip = 0) const = 0;
  /// What runs the programs: "cpu", or a plugin and the versions it names. Two runs compare only on the same path.
  virtual std::string path() const = 0;
  /// What loading found or chose and a user should see, a line each: "18 products: 15 searched, 3 kept".
  virtual std::vector<std::string> load_notes() const { return {}; }
  /// Where the time of loading went: in the backend's compiler, where it says no more.
  virtual std::vector<base::TimedPart> load_parts() const;
  /// What another run must have in common to compute the same bits, in words; empty: the backend does not say.
  virtual std::string repeats() const { return ""; }
  /// Compilations after compile::, transfers, waits.
  virtual Counters counters() const = 0;
  /// As Counters::programs_made(). Asked after every step: allocates nothing.
  virtual int64_t programs_made() const = 0;
  /// The mean over the steps after the first, which warms up, of the local chip whose steps took longest. Nothing where
  /// the backend cannot tell, before a second step, and after a step that did not end.
  virtual std::optional<StepParts> step_parts() const { return std::nullopt; }
  /// Of the local chips the busiest, as the mean over the same steps. Nothing where there are no step_parts().
  virtual std::optional<BusyChip> busy() const { return std::nullopt; }
  /// What ops take in a step when profiling is on, most seconds first: the mean over the steps after the first, added
  /// up over all chips. Empty before a second step.
  virtual std::vector<OpSeconds> op_seconds() const { return {}; }
  /// What a chip did when, in the first steps, as many as loading asked for.
  virtual std::span<const TraceEvent> trace(int64_t /*chip*/) const { return {}; }

 protected:
  const compile::Compiled& compiled() const { return compiled_; }
  const StepPorts& ports(int64_t chip) const { return ports_[compiled_.stage_of(chip)]; }

  // Arguments are checked: names are in the table, sizes agree.
  virtual void put_state(const compile::StateTensor& tensor, int64_t chip, std::span<const std::byte> part) = 0;
  virtual void get_state(const compile::StateTensor& tensor, int64_t chip, std::span<std::byte> part) const = 0;
  /// One piece and a copy of it, where the backend knows no better.
  virtual void make_state(const compile::StateTensor& tensor, int64_t chip, const FillPiece& fill);
  virtual void put_batch(const StagedInput& input, int64_t micro, int64_t chip, std::span<const std::byte> part) = 0;
  virtual void get_output(const FetchedOutput& output, int64_t chip, std::span<std::byte> values) const = 0;

 private:
  const compile::StateTensor& kept_state(const std::string& name, int64_t chip) const;
  const compile::StateTensor& kept_state(const std::string& name, int64_t chip, size_t bytes) const;
  const FetchedOutput& fetched_output(const std::string& name, int64_t chip) const;

  const compile::Compiled& compiled_;
  std::vector<StepPorts> ports_;  // by pipeline stage
};

}  // namespace megacpp::runtime
