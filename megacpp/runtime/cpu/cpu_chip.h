// SPDX-License-Identifier: Apache-2.0
// One virtual chip: its arena, its threads and the calls of its programs with every address resolved. Nothing is
// allocated while it runs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/base/thread_pool.h"
#include "megacpp/compile/compile.h"
#include "megacpp/runtime/cpu/arena.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/link.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::runtime::cpu {

class CpuChip {
 public:
  struct Options {
    int threads = 1;
    bool profile = false;  // keep seconds per op
    /// Keep when each call of so many first steps began and ended, in seconds since a moment common to all chips.
    int64_t trace_steps = 0;
    std::chrono::steady_clock::time_point trace_from = {};
    int64_t limit_bytes = 0;  // for reports: the plan was held against it before
    /// Bytes that the transport wants for a node between chips.
    std::function<int64_t(std::string_view op, const ops::NodeView&)> collective_workspace = {};
  };

  /// `programs` and what `link` refers to must outlive the chip.
  CpuChip(const compile::StagePrograms& programs, const Link& link, const Options& options);

  std::span<std::byte> state(const std::string& name) const;
  bool has_state(const std::string& name) const { return state_.contains(name); }
  void run(size_t program);
  /// The first half of a program, which is then abandoned: how far a chip gets whose allocation fails.
  void run_half(size_t program);
  /// Waits until what the programs have sent is fetched: the end of a step.
  void drain();
  /// The first node whose result is not finite; the program stops there.
  std::optional<BadValue> run_checked(size_t program);
  std::span<const std::byte> output(size_t program, const std::string& name) const;
  ChipMemory memory() const {
    return {.used_bytes = arena_.bytes(),
            .limit_bytes = options_.limit_bytes,
            .planned_peak_bytes = plan_.total_bytes,
            .measured_peak_bytes = measured_peak_};
  }
  const std::vector<std::pair<std::string, double>>& op_seconds() const { return timers_; }
  const std::vector<TraceEvent>& trace() const { return trace_; }

 private:
  // One kernel or one exchange.
  struct Call {
    Prepared kernel;
    Exchange exchange;  // instead of the kernel, for nodes between chips
    std::vector<std::byte*> operands;
    std::vector<std::byte*> results;
    std::byte* workspace = nullptr;
    int64_t end_offset = 0;  // end of the highest cache line it was handed
    uint32_t node = 0;
    size_t timer = 0;
  };
  struct FinalCopy {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  struct Program {
    std::vector<Call> calls;
    std::vector<FinalCopy> final_copies;
    std::vector<std::function<void()>> drains;  // of sends whose operands it overwrites: they must be fetched before
    const ir::Graph* graph = nullptr;
    const memory::ProgramPlan* plan = nullptr;
  };

  void prepare(const ir::Graph& graph, const memory::ProgramPlan& plan);
  Call prepare_call(const Program& program, LinkedProgram& linked, uint32_t n);
  void place_workspace(const Program& program, Call& call, int64_t bytes) const;
  void protect_sends();
  size_t timer_of(const std::string& op);
  static void start(const Program& program);
  void run_call(const Program& program, const Call& call);
  void run_now(const Call& call);
  static void finish(const Program& program);

  const memory::MemoryPlan& plan_;
  Link link_;
  Options options_;
  Arena arena_;
  base::ThreadPool pool_;
  std::map<std::string, std::span<std::byte>> state_;
  std::vector<Program> programs_;
  std::vector<std::pair<std::string, double>> timers_;
  std::vector<TraceEvent> trace_;  // never more than there is room for from the start
  int64_t measured_peak_ = 0;
};

}  // namespace megacpp::runtime::cpu
