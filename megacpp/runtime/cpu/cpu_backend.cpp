// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "megacpp/base/error.h"
#include "megacpp/base/thread_pool.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/arena.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/storage.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kAlignment = 64;  // bytes: a cache line

// One kernel call with every address resolved.
struct Call {
  Prepared kernel;
  std::vector<std::byte*> operands;
  std::vector<std::byte*> results;
  std::byte* workspace = nullptr;
  int64_t end_offset = 0;  // highest arena byte it was handed, exclusive
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
  const ir::Graph* graph = nullptr;
  const memory::ProgramPlan* plan = nullptr;
};

bool is_view(const ir::Node& node) { return node.op == ir::kInputOp || node.op == "reshape"; }

bool all_finite(const std::byte* data, const ir::TensorType& type) {
  const int64_t count = type.elements();
  for (int64_t i = 0; i < count; ++i) {
    const float value = type.dtype == ir::DType::f32 ? reinterpret_cast<const float*>(data)[i]
                                                     : ir::bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const std::vector<LoadedProgram>& programs, const memory::MemoryPlan& plan, const LoadOptions& options)
      : plan_(plan), arena_(plan.total_bytes), pool_(options.threads), profile_(options.profile) {
    for (const memory::StateSlot& slot : plan.state)
      state_[slot.name] = {arena_.at(slot.offset), static_cast<size_t>(slot.type.bytes())};
    for (const LoadedProgram& program : programs) prepare(program);
  }

  std::span<std::byte> state(const std::string& name) override {
    const auto at = state_.find(name);
    MEGACPP_CHECK(at != state_.end()) << "no state is named '" << name << "'";
    return at->second;
  }

  void run(size_t program) override {
    for (const Call& call : programs_.at(program).calls) run_call(call);
    finish(programs_[program]);
  }

  float scalar_output(size_t program, const std::string& name) const override {
    const std::span<const std::byte> bytes = output(program, name);
    MEGACPP_CHECK(bytes.size() == sizeof(float)) << "output '" << name << "' is not one f32";
    float value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  std::span<const std::byte> output(size_t program, const std::string& name) const override {
    const Program& loaded = programs_.at(program);
    const auto value = loaded.graph->find_output(name);
    MEGACPP_CHECK(value.has_value()) << "program " << program << " has no output '" << name << "'";
    return {arena_.at(loaded.plan->value_offset[value->index]),
            static_cast<size_t>(loaded.graph->type(*value).bytes())};
  }

  ChipMemory memory() const override {
    return {.planned_peak_bytes = plan_.total_bytes, .measured_peak_bytes = measured_peak_};
  }

  std::optional<BadValue> run_checked(size_t program) override {
    const Program& loaded = programs_.at(program);
    for (const Call& call : loaded.calls) {
      const ir::Node& node = loaded.graph->node(ir::NodeId{call.node});
      run_call(call);
      for (size_t r = 0; r < node.results.size(); ++r) {
        const ir::TensorType& type = loaded.graph->type(node.results[r]);
        if (ir::is_float(type.dtype) && !all_finite(call.results[r], type))
          return BadValue{loaded.graph->name(), call.node, node.op, node.scope, to_string(type)};
      }
    }
    finish(loaded);
    return std::nullopt;
  }

  std::vector<std::pair<std::string, double>> op_seconds() const override { return timers_; }

 private:
  void prepare(const LoadedProgram& source) {
    Program program;
    program.graph = source.graph;
    program.plan = source.plan;
    for (uint32_t n = 0; n < source.graph->nodes().size(); ++n)
      if (!is_view(source.graph->nodes()[n])) program.calls.push_back(prepare_call(source, n));
    for (const memory::Buffers::Copy& copy : source.plan->final_copies) {
      const size_t bytes = static_cast<size_t>(source.graph->type(copy.from).bytes());
      program.final_copies.push_back(
          {arena_.at(source.plan->value_offset[copy.from.index]), state_.at(copy.to_state).data(), bytes});
    }
    programs_.push_back(std::move(program));
  }

  Call prepare_call(const LoadedProgram& source, uint32_t n) {
    const ir::Node& node = source.graph->nodes()[n];
    const Kernel* kernel = find_kernel(node.op);
    MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << node.op << " @" << node.scope;
    const ops::Types operands = source.graph->operand_types(node), results = source.graph->result_types(node);
    Call call{.kernel = prepare_any_storage(*kernel, {operands, results, node.attrs}, pool_.size()),
              .operands = {},
              .results = {}};
    call.node = n;
    call.timer = timer_of(node.op);
    const auto address = [&](ir::ValueId value) {
      const int64_t offset = source.plan->value_offset[value.index];
      call.end_offset = std::max(call.end_offset, offset + source.graph->type(value).bytes());
      return arena_.at(offset);
    };
    for (const ir::ValueId operand : node.operands) call.operands.push_back(address(operand));
    for (const ir::ValueId result : node.results) call.results.push_back(address(result));
    if (call.kernel.workspace_bytes > 0) {
      const int64_t offset = source.plan->workspace_offset[n];
      MEGACPP_CHECK(offset >= 0) << node.op << " @" << node.scope << " has no workspace in the plan";
      call.workspace = arena_.at(offset);
      call.end_offset = std::max(call.end_offset, offset + call.kernel.workspace_bytes);
    }
    return call;
  }

  static void finish(const Program& program) {
    for (const FinalCopy& copy : program.final_copies) std::memcpy(copy.to, copy.from, copy.bytes);
  }

  size_t timer_of(const std::string& op) {
    for (size_t i = 0; i < timers_.size(); ++i)
      if (timers_[i].first == op) return i;
    timers_.emplace_back(op, 0.0);
    return timers_.size() - 1;
  }

  void run_call(const Call& call) {
    measured_peak_ = std::max(measured_peak_, call.end_offset);
    const KernelArgs args{
        .operands = call.operands, .results = call.results, .workspace = call.workspace, .pool = pool_};
    if (!profile_) return call.kernel.run(args);
    const auto start = std::chrono::steady_clock::now();
    call.kernel.run(args);
    timers_[call.timer].second += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const memory::MemoryPlan& plan_;
  Arena arena_;
  base::ThreadPool pool_;
  bool profile_;
  std::map<std::string, std::span<std::byte>> state_;
  std::vector<Program> programs_;
  std::vector<std::pair<std::string, double>> timers_;
  int64_t measured_peak_ = 0;
};

}  // namespace

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// The kernel's estimate of what a new program can use, and the limit of the container around us if that is less.
int64_t available_memory_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    int64_t kibibytes = 0;
    if (word == "MemAvailable:" && meminfo >> kibibytes) available = kibibytes * 1024;
  }
  int64_t limit = 0;
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");  // a number, or "max"
  if (cgroup >> limit) available = std::min(available, limit);
  return available;
}

schedule::Target cpu_target(int threads) {
  return {.name = "cpu",
          .runs =
              [](std::string_view op, const ops::NodeView& view) {
                const Kernel* kernel = find_kernel(op);
                if (kernel == nullptr)
                  return base::Decision::no("the cpu backend has no kernel for " + std::string(op));
                return kernel->supports ? kernel->supports(view) : base::Decision::yes();
              },
          .workspace_bytes =
              [threads](std::string_view op, const ops::NodeView& view) {
                const Kernel* kernel = find_kernel(op);
                MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << op;
                return prepare_any_storage(*kernel, view, threads).workspace_bytes;
              },
          .alignment = kAlignment};
}

std::unique_ptr<Executable> load(const std::vector<LoadedProgram>& programs, const memory::MemoryPlan& plan,
                                 const LoadOptions& options) {
  const int64_t available = available_memory_bytes();
  const std::string largest =
      plan.largest.empty() ? "" : ", the largest piece " + plan.largest[0].what + " @" + plan.largest[0].scope;
  MEGACPP_REQUIRE(
      plan.total_bytes <= available, E2001,
      {.where = "this machine, chip 0",
       .got = "a plan of " + std::to_string(plan.total_bytes) + " bytes" + largest,
       .wanted = "at most the " + std::to_string(available) + " bytes available",
       .next = "reduce train.batch (raise train.micro_steps), reduce train.sequence, or set train.recompute"});
  return std::make_unique<CpuExecutable>(programs, plan, options);
}

}  // namespace megacpp::runtime::cpu
