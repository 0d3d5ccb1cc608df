// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "megacpp/base/error.h"
#include "megacpp/collectives/inproc/inproc_world.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/chip_threads.h"
#include "megacpp/runtime/cpu/cpu_chip.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/storage.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kAlignment = 64;  // bytes: a cache line

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const compile::Compiled& compiled, const LoadOptions& options)
      : mesh_(compiled.mesh), world_(mesh_.chips()), threads_(mesh_.chips()) {
    CpuChip::Options own{.threads = threads_per_chip(options.threads, mesh_), .profile = options.profile};
    if (options.trace) own.trace_from = std::chrono::steady_clock::now();
    for (int64_t chip = 0; chip < mesh_.chips(); ++chip)
      chips_.push_back(std::make_unique<CpuChip>(compiled, Link{mesh_, chip, world_.communicator(chip)}, own));
  }

  int64_t chips() const override { return mesh_.chips(); }

  std::span<std::byte> state(const std::string& name, int64_t chip) override { return at(chip).state(name); }

  void run(size_t program) override {
    on_all_chips([this, program](int64_t chip) { at(chip).run(program); });
  }

  std::span<const std::byte> output(size_t program, const std::string& name, int64_t chip) const override {
    return at(chip).output(program, name);
  }

  ChipMemory memory(int64_t chip) const override { return at(chip).memory(); }

  std::optional<BadValue> run_checked(size_t program) override {
    std::vector<std::optional<BadValue>> found(chips_.size());
    try {
      on_all_chips([&](int64_t chip) {
        std::optional<BadValue>& own = found[static_cast<size_t>(chip)];
        own = at(chip).run_checked(program);
        if (own) world_.abort(chip, "a number that is not finite @" + own->scope);
      });
    } catch (const base::Error&) {
      // The chips that were waiting for the one that stopped.
      if (std::none_of(found.begin(), found.end(), [](const auto& bad) { return bad.has_value(); })) throw;
    }
    for (const std::optional<BadValue>& bad : found)
      if (bad) return bad;
    return std::nullopt;
  }

  std::vector<std::pair<std::string, double>> op_seconds() const override {
    std::vector<std::pair<std::string, double>> total = at(0).op_seconds();
    for (size_t chip = 1; chip < chips_.size(); ++chip)
      for (size_t op = 0; op < total.size(); ++op) total[op].second += chips_[chip]->op_seconds()[op].second;
    return total;
  }

  const std::vector<TraceEvent>& trace(int64_t chip) const override { return at(chip).trace(); }

 private:
  CpuChip& at(int64_t chip) const { return *chips_.at(static_cast<size_t>(chip)); }

  // A chip that fails tells the others before its error travels on, so that none waits for it.
  template <typename Body>
  void on_all_chips(const Body& body) {
    threads_.run([&](int64_t chip) {
      try {
        body(chip);
      } catch (const std::exception& error) {
        world_.abort(chip, error.what());
        throw;
      }
    });
  }

  const ir::Mesh& mesh_;
  collectives::InprocWorld world_;
  std::vector<std::unique_ptr<CpuChip>> chips_;
  ChipThreads threads_;
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

int threads_per_chip(int threads, const ir::Mesh& mesh) {
  return std::max(1, threads / static_cast<int>(mesh.chips()));
}

schedule::Target cpu_target(int threads) {
  return {.name = "cpu",
          .runs =
              [](std::string_view op, const ops::NodeView& view) {
                if (ops::op_def(op).is_collective) return base::Decision::yes();
                const Kernel* kernel = find_kernel(op);
                if (kernel == nullptr)
                  return base::Decision::no("the cpu backend has no kernel for " + std::string(op));
                return kernel->supports ? kernel->supports(view) : base::Decision::yes();
              },
          .workspace_bytes =
              [threads](std::string_view op, const ops::NodeView& view) {
                if (ops::op_def(op).is_collective) return int64_t{0};
                const Kernel* kernel = find_kernel(op);
                MEGACPP_CHECK(kernel != nullptr) << "the cpu backend has no kernel for " << op;
                return prepare_any_storage(*kernel, view, threads).workspace_bytes;
              },
          .alignment = kAlignment};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options) {
  const memory::MemoryPlan& plan = compiled.memory;
  const int64_t available = available_memory_bytes();
  const std::string largest =
      plan.largest.empty() ? "" : ", the largest piece " + plan.largest[0].what + " @" + plan.largest[0].scope;
  const int64_t chips = compiled.mesh.chips();
  const std::string times = chips == 1 ? "" : " on each of " + std::to_string(chips) + " chips";
  MEGACPP_REQUIRE(
      plan.total_bytes <= available / chips, E2001,
      {.where = "this machine, chip 0",
       .got = "a plan of " + std::to_string(plan.total_bytes) + " bytes" + times + largest,
       .wanted = "at most the " + std::to_string(available) + " bytes available",
       .next = "reduce train.batch (raise train.micro_steps), reduce train.sequence, or set train.recompute"});
  return std::make_unique<CpuExecutable>(compiled, options);
}

}  // namespace megacpp::runtime::cpu
