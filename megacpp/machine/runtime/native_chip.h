// SPDX-License-Identifier: Apache-2.0
// One chip of a backend with kernels of its own: its programs as lists of calls with every address resolved, the
// batches staged for it and the outputs kept to be fetched. Nothing is allocated while it runs. A device with a queue
// runs behind its host: calls, copies and staged batches only enqueue, at addresses that no step changes, so that a
// whole step can be replayed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/runtime/chip_device.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/step_timer.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::runtime {

class NativeChip {
 public:
  struct Options {
    int64_t chip = 0;
    StepTimer::Options timer = {};
    std::optional<int64_t> limit_bytes = {};  // for reports: the plan was held against it before
  };

  /// `programs` and `ports` must outlive the chip.
  NativeChip(const compile::StagePrograms& programs, const StepPorts& ports, std::unique_ptr<ChipDevice> device,
             const Options& options);

  /// Nothing where the plan has no state of that name.
  std::optional<int64_t> state_bytes(const std::string& name) const;
  void write_state(const std::string& name, std::span<const std::byte> bytes);
  void read_state(const std::string& name, std::span<std::byte> bytes) const;
  void fill_state(const std::string& name, const FillPiece& fill);
  void stage(const StagedInput& input, int64_t micro, std::span<const std::byte> bytes);
  void read_output(const FetchedOutput& output, std::span<std::byte> values) const;

  /// Whether a step is done when it ends here; else the device may still be at it.
  bool waits_for_steps() const { return timer_.is_on(); }
  /// Whether plain steps may be replayed.
  bool can_replay() const { return queue_ != nullptr && !timer_.is_on(); }

  /// On the thread that runs the step, before its first action.
  void begin_step();
  /// All actions of a plain step and its end, as the device kept them.
  void replay_step();
  /// One action of the step, by its index: the staged micro-batch goes to its slot, the program runs, what is fetched
  /// of its outputs is put aside. Throws NotFinite where values are checked.
  void run(size_t action, StepMode mode);
  /// The first half of an action, which is then abandoned: how far a chip gets whose allocation fails.
  void run_half(size_t action);
  /// Waits until what the programs have sent is fetched.
  void end_step();

  ChipMemory memory() const;
  /// Seconds by part, since load or since they were cleared; `other` is not the chip's to know.
  StepTimer& timer() { return timer_; }
  const StepTimer& timer() const { return timer_; }

 private:
  struct Call {
    DeviceCall device;
    std::vector<std::byte*> operands;
    std::vector<std::byte*> results;
    int64_t end_offset = 0;                        // end of the highest aligned bytes it was handed
    std::map<ir::Tier, int64_t> away_offset = {};  // of those in other tiers
    StepTimer::Piece piece;
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  struct Program {
    std::vector<Call> calls;
    std::vector<std::function<void()>> whole;  // the same work for replayed steps; empty: the calls
    std::vector<Copy> final_copies;
    std::vector<std::function<void()>> drains;  // of sends whose operands it overwrites: they must be fetched before
    const ir::Graph* graph = nullptr;
    const memory::ProgramPlan* plan = nullptr;
    std::string_view kind;
  };
  // Around the program of one action.
  struct Transfers {
    std::vector<Copy> staged;   // before
    std::vector<Copy> fetched;  // after
  };

  std::byte* at(ir::Tier tier, int64_t offset) const;
  void prepare(const compile::Program& compiled, const memory::ProgramPlan& plan);
  Call prepare_call(const Program& program, uint32_t n);
  void protect_sends();
  void prepare_transfers(const StepPorts& ports);
  void reserve_timer();
  int64_t aligned(int64_t bytes) const;
  int64_t aligned_in(ir::Tier tier, int64_t bytes) const;
  void drain_all(const std::vector<std::function<void()>>& drains);
  void copy_all(const std::vector<Copy>& copies);
  void start(size_t action);
  void finish(size_t action);
  void note_memory(const Call& call);
  void run_call(const Call& call);
  void run_whole(size_t action);
  void require_finite(const Program& program, const Call& call, const compile::Action& action) const;

  const compile::StagePrograms& compiled_;
  const memory::MemoryPlan& plan_;
  std::unique_ptr<ChipDevice> device_;
  DeviceQueue* queue_;  // the device's; may be null
  Options options_;
  StepTimer timer_;
  std::map<std::string, std::span<std::byte>> state_;
  std::map<std::string, std::byte*> staged_;   // by input: its micro-steps one behind the other
  std::map<std::string, std::byte*> fetched_;  // by output, likewise
  std::vector<Program> programs_;
  std::vector<Transfers> transfers_;          // by action
  std::vector<std::function<void()>> sends_;  // that must be fetched before the step ends
  int64_t measured_peak_ = 0;
  std::map<ir::Tier, int64_t> measured_away_;
};

}  // namespace megacpp::runtime
