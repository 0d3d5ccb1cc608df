// SPDX-License-Identifier: Apache-2.0
// One chip of a backend with kernels of its own: its programs as lists of calls with every address resolved, the
// batches staged for it and the outputs kept to be fetched. Nothing is allocated while it runs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/runtime/chip_device.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::runtime {

class NativeChip {
 public:
  struct Options {
    int64_t chip = 0;
    bool profile = false;  // keep seconds per op
    /// Keep when each call of so many first steps began and ended, in seconds since a moment common to all chips.
    int64_t trace_steps = 0;
    std::chrono::steady_clock::time_point trace_from = {};
    std::optional<int64_t> limit_bytes = {};  // for reports: the plan was held against it before
  };

  /// `programs` and `ports` must outlive the chip.
  NativeChip(const compile::StagePrograms& programs, const StepPorts& ports, std::unique_ptr<ChipDevice> device,
             const Options& options);

  /// Nothing where the plan has no state of that name.
  std::optional<int64_t> state_bytes(const std::string& name) const;
  void write_state(const std::string& name, std::span<const std::byte> bytes);
  void read_state(const std::string& name, std::span<std::byte> bytes) const;
  void stage(const StagedInput& input, int64_t micro, std::span<const std::byte> bytes);
  void read_output(const FetchedOutput& output, std::span<std::byte> values) const;

  /// One action of the step, by its index: the staged micro-batch goes to its slot, the program runs, what is fetched
  /// of its outputs is put aside. Throws NotFinite where values are checked.
  void run(size_t action, StepMode mode);
  /// The first half of an action, which is then abandoned: how far a chip gets whose allocation fails.
  void run_half(size_t action);
  /// Waits until what the programs have sent is fetched: the end of a step.
  void drain();

  ChipMemory memory() const;
  /// Seconds since load or since they were cleared; `other` is not the chip's to know.
  const StepParts& parts() const { return parts_; }
  void clear_parts() { parts_ = {}; }
  const std::vector<std::pair<std::string, double>>& op_seconds() const { return timers_; }
  const std::vector<TraceEvent>& trace() const { return trace_; }

 private:
  struct Call {
    DeviceCall device;
    std::vector<std::byte*> operands;
    std::vector<std::byte*> results;
    int64_t end_offset = 0;  // end of the highest aligned bytes it was handed
    uint32_t node = 0;
    size_t timer = 0;
    double StepParts::*part = &StepParts::memory;  // of the step that its time counts as
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  struct Program {
    std::vector<Call> calls;
    std::vector<Copy> final_copies;
    std::vector<std::function<void()>> drains;  // of sends whose operands it overwrites: they must be fetched before
    const ir::Graph* graph = nullptr;
    const memory::ProgramPlan* plan = nullptr;
  };
  // Around the program of one action.
  struct Transfers {
    std::vector<Copy> staged;   // before
    std::vector<Copy> fetched;  // after
  };

  void prepare(const ir::Graph& graph, const memory::ProgramPlan& plan);
  Call prepare_call(const Program& program, uint32_t n);
  void protect_sends();
  void prepare_transfers(const StepPorts& ports);
  size_t timer_of(const std::string& op);
  int64_t aligned(int64_t bytes) const;
  template <typename Work>
  void timed(double StepParts::*part, const Work& work);
  void copy_all(const std::vector<Copy>& copies);
  void start(size_t action);
  void run_call(const Program& program, const Call& call);
  void require_finite(const Program& program, const Call& call, const compile::Action& action) const;

  const compile::StagePrograms& compiled_;
  const memory::MemoryPlan& plan_;
  std::unique_ptr<ChipDevice> device_;
  Options options_;
  std::map<std::string, std::span<std::byte>> state_;
  std::map<std::string, std::byte*> staged_;   // by input: its micro-steps one behind the other
  std::map<std::string, std::byte*> fetched_;  // by output, likewise
  std::vector<Program> programs_;
  std::vector<Transfers> transfers_;          // by action
  std::vector<std::function<void()>> sends_;  // that must be fetched before the step ends
  std::vector<std::pair<std::string, double>> timers_;
  std::vector<TraceEvent> trace_;  // never more than it has capacity for from the start
  StepParts parts_;
  int64_t measured_peak_ = 0;
};

}  // namespace megacpp::runtime
