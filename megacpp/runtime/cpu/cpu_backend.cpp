// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/chip_threads.h"
#include "megacpp/runtime/collective_call.h"
#include "megacpp/runtime/cpu/arena.h"
#include "megacpp/runtime/cpu/cpu_chip.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/storage.h"

namespace megacpp::runtime::cpu {
namespace {

class CpuExecutable : public Executable {
 public:
  /// `world` is shared with load(), which aborts it when this throws.
  CpuExecutable(const compile::Compiled& compiled, const LoadOptions& options, const memory::FitCheck& fit,
                std::shared_ptr<collectives::World> world)
      : compiled_(compiled),
        mesh_(compiled.mesh),
        faults_(options.faults),
        limits_(limits_of(fit)),
        world_(std::move(world)),
        threads_(world_->local_chips(), [this](int64_t chip, const std::string& what) {
          world_->abort(chip, what);  // so that nobody waits for it
        }) {
    CpuChip::Options own{
        .threads = threads_per_chip(options.threads, std::ssize(local_chips())),
        .profile = options.profile,
        .trace_steps = options.trace_steps,
        .trace_from = std::chrono::steady_clock::now(),
        .collective_workspace = [transport = options.transport](std::string_view op, const ops::NodeView& view) {
          return workspace_bytes(transport, op, view);
        }};
    for (const int64_t chip : local_chips()) {
      fail_if_injected({.chip = chip, .cls = memory::OomClass::load});
      own.limit_bytes = limits_.at(chip);
      chips_[chip] =
          std::make_unique<CpuChip>(compiled.programs_of(chip), Link{mesh_, chip, world_->communicator(chip)}, own);
    }
  }

  int64_t chips() const override { return mesh_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return world_->local_chips(); }

  void write_state(const std::string& name, int64_t chip, std::span<const std::byte> bytes) override {
    copy(bytes, at(chip).state(name));
  }

  void read_state(const std::string& name, int64_t chip, std::span<std::byte> bytes) const override {
    copy(at(chip).state(name), bytes);
  }

  std::optional<int64_t> state_bytes(const std::string& name, int64_t chip) const override {
    if (!at(chip).has_state(name)) return std::nullopt;
    return static_cast<int64_t>(at(chip).state(name).size());
  }

  void run(size_t program) override {
    threads_.run([this, program](int64_t chip) { at(chip).run(program); });
  }

  std::span<const std::byte> output(size_t program, const std::string& name, int64_t chip) const override {
    return at(chip).output(program, name);
  }

  ChipMemory memory(int64_t chip) const override { return at(chip).memory(); }

  void run_step(const StepHooks& hooks) override {
    const int64_t step = steps_++;
    threads_.run([&](int64_t chip) {
      for (const compile::Action& action : compiled_.programs_of(chip).step) {
        if (hooks.before) hooks.before(chip, action);
        fail_if_injected({.chip = chip, .cls = memory::OomClass::runtime, .step = step}, action);
        run_action(chip, action, hooks.check_values);
        if (hooks.after) hooks.after(chip, action);
      }
      at(chip).drain();
    });
  }

  std::string path() const override { return "cpu"; }
  std::vector<std::pair<std::string, double>> op_seconds() const override {
    std::map<std::string, double> by_op;
    for (const auto& [number, chip] : chips_)
      for (const auto& [op, seconds] : chip->op_seconds()) by_op[op] += seconds;
    std::vector<std::pair<std::string, double>> total(by_op.begin(), by_op.end());
    std::stable_sort(total.begin(), total.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return total;
  }

  const std::vector<TraceEvent>& trace(int64_t chip) const override { return at(chip).trace(); }

 private:
  static void copy(std::span<const std::byte> from, std::span<std::byte> to) {
    MEGACPP_CHECK(from.size() == to.size()) << from.size() << " bytes for " << to.size();
    std::memcpy(to.data(), from.data(), from.size());
  }

  static std::map<int64_t, int64_t> limits_of(const memory::FitCheck& fit) {
    std::map<int64_t, int64_t> limits;
    for (const memory::ChipFit& chip : fit.chips) limits[chip.chip] = chip.limit_bytes;
    return limits;
  }

  void fail_if_injected(const Fault& moment) const {
    if (is_injected_at(faults_, moment)) throw injected_error(moment, compiled_, limits_.at(moment.chip));
  }

  // In the middle of the first program of the step, when other chips already wait for this one.
  void fail_if_injected(const Fault& moment, const compile::Action& action) const {
    if (!is_injected_at(faults_, moment)) return;
    at(moment.chip).run_half(action.program);
    fail_if_injected(moment);
  }

  CpuChip& at(int64_t chip) const { return *chips_.at(chip); }

  void run_action(int64_t chip, const compile::Action& action, bool check_values) {
    if (!check_values) return at(chip).run(action.program);
    if (std::optional<BadValue> bad = at(chip).run_checked(action.program)) {
      NotFinite failure(std::move(*bad));
      failure.action = action;
      throw failure;
    }
  }

  const compile::Compiled& compiled_;
  const ir::Mesh& mesh_;
  Faults faults_;
  std::map<int64_t, int64_t> limits_;  // by local chip
  int64_t steps_ = 0;                  // run so far
  std::shared_ptr<collectives::World> world_;
  std::map<int64_t, std::unique_ptr<CpuChip>> chips_;  // by local chip
  ChipThreads threads_;
};

// The plans of the local chips held against their limits and this machine's free memory.
memory::FitCheck check_fit(const compile::Compiled& compiled, const collectives::World& world,
                           const std::vector<int64_t>& limits) {
  std::vector<const memory::MemoryPlan*> plans(static_cast<size_t>(world.chips()));
  for (const int64_t chip : world.local_chips()) plans[static_cast<size_t>(chip)] = &compiled.programs_of(chip).memory;
  return memory::check_fit(plans, {.of_chips = limits, .machine_bytes = available_memory_bytes()});
}

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

int threads_per_chip(int threads, int64_t chips) { return static_cast<int>(std::max<int64_t>(1, threads / chips)); }

schedule::Target cpu_target(int threads, const collectives::Transport& transport) {
  return {.name = "cpu",
          .runs =
              [](std::string_view op, const ops::NodeView& view) {
                const ops::OpDef* const def = ops::find_op(op);
                if (def != nullptr && def->is_collective) return base::Decision::yes();
                const Kernel* kernel = find_kernel(op);
                if (kernel == nullptr)
                  return base::Decision::no("the cpu backend has no kernel for " + std::string(op));
                return kernel->supports ? kernel->supports(view) : base::Decision::yes();
              },
          .workspace_bytes =
              [threads, transport](std::string_view op, const ops::NodeView& view) {
                if (ops::op_def(op).is_collective) return runtime::workspace_bytes(transport, op, view);
                const Kernel* kernel = find_kernel(op);
                MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << op;
                return prepare_any_storage(*kernel, view, threads).workspace_bytes;
              },
          .alignment = kAlignment};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options) {
  const std::shared_ptr<collectives::World> world =
      options.transport.make({.chips = compiled.mesh.chips(), .wait_limit = options.wait_limit});
  try {
    const memory::FitCheck fit = check_fit(compiled, *world, options.limits);
    if (fit.misfit) throw memory::misfit_error(fit, compiled.mesh, host_name());
    return std::make_unique<CpuExecutable>(compiled, options, fit, world);
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), error.what());
    throw;
  }
}

}  // namespace megacpp::runtime::cpu
