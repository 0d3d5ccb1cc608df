// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/cpu_backend.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/cpu/arena.h"
#include "megacpp/machine/cpu/cpu_device.h"
#include "megacpp/machine/cpu/host_rates.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/storage.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/collective_call.h"
#include "megacpp/machine/runtime/native_executable.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {
namespace {

std::map<int64_t, int64_t> limits_of(const memory::FitCheck& fit) {
  std::map<int64_t, int64_t> limits;
  for (const memory::ChipFit& chip : fit.chips) limits[chip.chip] = chip.limit_bytes;
  return limits;
}

// Of each chip, on every process as many: the workspace of kernels depends on it, and so do plans.
int agreed_threads(collectives::World& world, int threads) {
  const int64_t local = static_cast<int64_t>(world.local_chips().size());
  return static_cast<int>(world.agree_min(kThreadsOfAChip, threads_per_chip(threads, local)));
}

// The plans of the local chips held against their limits and this machine's free memory.
memory::FitCheck check_fit(const compile::Compiled& compiled, const collectives::World& world,
                           const std::vector<int64_t>& limits) {
  std::vector<const memory::MemoryPlan*> plans(static_cast<size_t>(world.chips()));
  for (const int64_t chip : world.local_chips()) plans[static_cast<size_t>(chip)] = &compiled.programs_of(chip).memory;
  return memory::check_fit(plans, {.of_chips = limits, .machine_bytes = base::available_memory_bytes()});
}

}  // namespace

HostRatesProbe host_rates_probe() {
  return {.kept = [] { return host_rates(); }, .renewed = [] { return renew_host_rates(); }, .file = host_rates_file};
}

hw::Slice host_slice(int64_t chips, const Machine& machine) {
  hw::HostRates rates = machine.rates ? machine.rates() : host_rates();
  rates.memory = std::min(rates.memory, machine.free_bytes);
  return hw::parse_target("host:" + std::to_string(chips),
                          {.host_rates = [&] { return rates; }, .host_chips = machine.local_chips});
}

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
  const std::shared_ptr<collectives::World> world = options.transport.make(world_of_run(compiled.mesh, options));
  try {
    const int threads = agreed_threads(*world, options.threads);
    const auto device = [&compiled, world, threads, flight = options.flight,
                         transport = options.transport](int64_t chip) -> std::unique_ptr<ChipDevice> {
      collectives::Communicator& own = world->communicator(chip);
      return std::make_unique<CpuDevice>(
          Link{compiled.mesh, chip, flight ? flight->recorded(own) : own},
          CpuDevice::Options{.arena_bytes = compiled.programs_of(chip).memory.total_bytes,
                             .threads = threads,
                             .transport = transport});
    };
    const memory::FitCheck fit = check_fit(compiled, *world, options.limits);
    if (fit.misfit) throw memory::misfit_error(fit, compiled.mesh, host_name());
    NativeBackend own;
    own.path = "cpu" + collectives::path_over_processes(*world);
    own.repeats = [] { return "the same bits on such a processor with as many threads of a chip"; };
    own.world = world;
    own.device = device;
    own.flight = options.flight;
    own.limits = limits_of(fit);
    return std::make_unique<NativeExecutable>(compiled, options, std::move(own));
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), collectives::reason_of(error));
    throw;
  }
}

}  // namespace megacpp::runtime::cpu

namespace megacpp::runtime {

Backend cpu_backend() {
  return {.name = "cpu",
          .runs_on = {hw::ChipKind::host},
          .cannot_run =
              [](const recipe::Recipe& recipe) {
                return recipe::unsupported_offload(recipe, "virtual chips are in the host's memory already");
              },
          .ignores = {{.key = "xla.", .decides = "only backend xla reads it"},
                      {.key = "hardware.target",
                       .decides = "backend cpu runs on this machine; plan and fit read it",
                       .plans_read_it = true}},
          .has_kernel = [](std::string_view op) { return cpu::find_kernel(op) != nullptr; },
          .transports = {"inproc", "mpi"},
          .target = [](const recipe::RunRequest&,
                       const TargetMesh& mesh) { return cpu::cpu_target(mesh.threads, mesh.transport); },
          .load = [](const recipe::RunRequest&, const compile::Compiled& compiled,
                     const LoadOptions& options) { return cpu::load(compiled, options); },
          .usable = [](const recipe::RunRequest&) { return base::Decision::yes(); },
          .threads = threads_for,
          .free_bytes = [](const recipe::RunRequest&) { return std::optional(base::available_memory_bytes()); },
          .host_rates = cpu::host_rates_probe(),
          .find_hardware =
              [](const recipe::RunRequest& request, const Machine& machine) {
                return FoundHardware{.slice = cpu::host_slice(request.chips, machine)};
              },
          .identity = [](const recipe::RunRequest&) { return std::string(); },
          .settings =
              [](const recipe::RunRequest& request) {
                return RunSettings{.text = base::counted(threads_for(request), "thread")};
              }};
}

}  // namespace megacpp::runtime
