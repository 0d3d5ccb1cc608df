// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/stopwatch.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/cuda/algorithm_search.h"
#include "megacpp/machine/cuda/cuda_device.h"
#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/device_link.h"
#include "megacpp/machine/cuda/device_world.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/nvrtc.h"
#include "megacpp/machine/cuda/peer_gpus.h"
#include "megacpp/machine/cuda/required_kernels.h"
#include "megacpp/machine/plugins/gpu_shares.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/runtime/host_use.h"
#include "megacpp/machine/runtime/native_executable.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {
namespace {

// With a hidden size of 2048 the product of so many rows has four full waves of 128 x 256 tiles on the 132
// multiprocessors of an H200, and one that sums over them takes 15 times as long as its f32 sum takes to be read and
// written back.
constexpr int64_t kFullRateRows = 8192;

// Partial sums of a cluster with as many folds as siblings come to have together, and the scalars it leaves. Were these
// shared, clusters that could be one launch would wait for one another.
constexpr int64_t kSeparateBytes = 4 * kEnoughBlocks * kPartialBytes;

// All processes together. One with all chips takes as many GPUs as it sees and has chips for, one of several takes one.
Gpus open_gpus(collectives::World& world, const LoadParts& parts) {
  const auto place = driver_place(parts.libraries);
  const Driver& driver = open_driver(place);
  plugins::GpusOfProcess own{.machine = host_name(), .gpus = visible_gpus(driver)};
  if (world.has_all_chips()) own.chips = std::min(world.chips(), static_cast<int64_t>(std::ssize(own.gpus)));
  const std::vector<int64_t> devices = plugins::share_gpus(world, own).devices;
  std::vector<DeviceProperties> kinds;
  for (const int64_t device : devices) kinds.push_back(read_properties(driver, static_cast<int>(device)));
  require_same_kind(kinds);
  Gpus gpus;
  for (const int64_t device : devices)
    gpus.push_back(std::make_shared<Gpu>(driver, Gpu::Options{.ordinal = static_cast<int>(device),
                                                              .libraries = parts.libraries,
                                                              .find_cubin = parts.find_cubin}));
  connect_peers(gpus);
  return gpus;
}

// Of the chips on the GPU of this index.
memory::FitCheck check_fit_on(const Gpus& gpus, size_t index, const compile::Compiled& compiled,
                              const collectives::World& world, const LoadOptions& options) {
  std::vector<const memory::MemoryPlan*> plans(static_cast<size_t>(world.chips()));
  for (const int64_t chip : world.local_chips())
    if (gpu_of_chip(chip, world.chips(), gpus.size()) == index)
      plans[static_cast<size_t>(chip)] = &compiled.programs_of(chip).memory;
  const Gpu& gpu = *gpus[index];
  gpu.attach();
  return memory::check_fit(
      plans,
      {.of_chips = options.limits, .machine_bytes = gpu.free_bytes(), .shared_class = memory::OomClass::compile});
}

// The world has events and memory of the GPUs: their contexts go after it, whoever lets go last.
std::shared_ptr<collectives::World> kept_with(Gpus gpus, std::shared_ptr<collectives::World> world) {
  collectives::World* const same = world.get();
  return {same, [gpus = std::move(gpus), world = std::move(world)](collectives::World*) mutable {
            gpus.front()->driver().ctx_set_current.attempt(gpus.front()->context());
            world.reset();
          }};
}

Connection connect_chip(std::shared_ptr<DeviceLink> link) {
  return {.prepare = [link](const BoundNode& bound) { return link->prepare(bound.graph, bound); },
          .wait = [link] { link->wait(); }};
}

// "cuda, 2 x NVIDIA H200, driver for CUDA 13.0".
std::string path_on(const Gpus& gpus, const collectives::World& world) {
  const Gpu& gpu = *gpus.front();
  const std::string count = gpus.size() == 1 ? "" : fmt::format("{} x ", gpus.size());
  return fmt::format("cuda, {}{}, driver for CUDA {}{}", count, gpu.properties().name,
                     version_text(gpu.driver().version), collectives::path_over_processes(world));
}

/// Of a load, for who asks while and after it runs.
struct LoadFacts {
  std::vector<int64_t> planned_bytes = {};      // by GPU, of all its chips
  std::map<int64_t, int64_t> chip_limits = {};  // bytes by chip
  int64_t host_bytes = 0;                       // of pinned memory, of all chips
  double context_seconds = 0;                   // the driver, the contexts of the GPUs and their code
  double memory_seconds = 0;                    // arenas and pinned memory
  double connecting_seconds = 0;                // of communicators with other processes
  int64_t connection_bytes = 0;                 // of the GPU that these took, beside the plans
};

// What other programs have of the GPU counts too, unless it is a chip's own limit that the plan exceeds.
memory::OutOfMemory misfit_on(const Gpu& gpu, const memory::FitCheck& fit, const ir::Mesh& mesh) {
  const memory::OutOfMemory error = memory::misfit_error(fit, mesh, gpu.text());
  if (fit.overflowing() > 0) return error;
  base::Problem problem = error.problem();
  problem.next +=
      fmt::format("; or end other programs on {} (nvidia-smi), or choose others with CUDA_VISIBLE_DEVICES", gpu.text());
  return {error.code(), std::move(problem), error.facts()};
}

// Every GPU has room for its chips: else nothing is obtained on any.
void require_fit(const Gpus& gpus, const compile::Compiled& compiled, const collectives::World& world,
                 const LoadOptions& options, LoadFacts& facts) {
  for (size_t index = 0; index < gpus.size(); ++index) {
    const memory::FitCheck fit = check_fit_on(gpus, index, compiled, world, options);
    if (fit.misfit) throw misfit_on(*gpus[index], fit, compiled.mesh);
    facts.planned_bytes.push_back(fit.total_bytes);
    for (const memory::ChipFit& chip : fit.chips) facts.chip_limits[chip.chip] = chip.limit_bytes;
  }
}

// What lies on the card beside the plans is the driver's and other programs'; how products are computed may differ
// between runs that searched and runs that kept.
std::vector<std::string> notes_on(const Gpus& gpus, const LoadFacts& facts) {
  std::vector<std::string> notes;
  for (size_t index = 0; index < gpus.size(); ++index) {
    const Gpu& gpu = *gpus[index];
    gpu.attach();
    const int64_t planned = facts.planned_bytes[index], used = gpu.properties().memory_bytes - gpu.free_bytes();
    notes.push_back(fmt::format("{} planned on {}, {} beside it: context, code and other programs",
                                memory::human_bytes(planned), gpus.size() == 1 ? gpu.properties().name : gpu.text(),
                                memory::human_bytes(used - planned)));
  }
  if (facts.host_bytes > 0)
    notes.push_back(fmt::format("{} in pinned memory of {}", memory::human_bytes(facts.host_bytes), host_name()));
  if (facts.connection_bytes > 0)
    notes.push_back(fmt::format("{} of these were taken while NCCL connected the processes, and are in no plan",
                                memory::human_bytes(facts.connection_bytes)));
  const CublasLt* const products = gpus.front()->toolbox().loaded_products();
  if (std::string text = products == nullptr ? "" : choices_text(*products); !text.empty())
    notes.push_back(std::move(text));
  return notes;
}

template <typename Work>
auto timed(double& seconds, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  auto made = work();
  seconds += base::seconds_since(start);
  return made;
}

// "31 cached, 2 compiled"; what there is none of is left out.
std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts)
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  return text;
}

std::string code_note(const Nvrtc* compiler) {
  if (compiler == nullptr) return "";
  return counts_text({{"cached", compiler->cache_hits()}, {"compiled", compiler->compiles()}});
}

std::string products_note(const CublasLt* products) {
  std::map<std::string, int64_t> counts;
  if (products == nullptr) return "";
  for (const auto& [problem, choice] : products->choices()) {
    if (choice.origin == LtOrigin::kept) ++counts["kept"];
    if (choice.origin == LtOrigin::searched) ++counts["searched"];
    if (choice.origin == LtOrigin::shared) ++counts["shared"];
  }
  return counts_text(counts);
}

// Processes that are joined through NCCL have a part more. Where code and algorithms come from is said of the first
// GPU, which others follow.
std::vector<base::TimedPart> parts_on(const Gpus& gpus, const LoadFacts& facts, double seconds_of_chips) {
  double code = 0, products = 0;
  for (const std::shared_ptr<Gpu>& gpu : gpus) {
    code += gpu->toolbox().load_seconds().code;
    products += gpu->toolbox().load_seconds().products;
  }
  const std::string code_from = code_note(gpus.front()->toolbox().loaded_compiler());
  const std::string products_from = products_note(gpus.front()->toolbox().loaded_products());
  const double nodes = std::max(0.0, seconds_of_chips - facts.memory_seconds);
  std::vector<base::TimedPart> parts = {{.name = "context", .seconds = facts.context_seconds},
                                        {.name = "memory", .seconds = facts.memory_seconds},
                                        {.name = "kernels", .seconds = code, .note = code_from},
                                        {.name = "products", .seconds = products, .note = products_from},
                                        {.name = "nodes", .seconds = nodes}};
  if (facts.connecting_seconds > 0) parts.push_back({.name = "nccl", .seconds = facts.connecting_seconds});
  return parts;
}

// Every kernel sums in a fixed order, and a product in that of its algorithm.
std::string repeats_on(const Gpu& gpu) {
  const CublasLt* const products = gpu.toolbox().loaded_products();
  std::string text = "the same bits on such a card with the same driver and libraries";
  if (products != nullptr && !products->choices().empty())
    text += " and algorithms of products, here " + choices_hash(products->choices());
  return text;
}

struct Placed {
  Gpus gpus;                                  // shared by the chips
  std::shared_ptr<collectives::World> world;  // shared by the chips and the executable
  std::shared_ptr<StepGraph> steps;           // shared by the chips
};

std::unique_ptr<ChipDevice> make_device(const compile::Compiled& compiled, const Placed& placed, int64_t chip) {
  const std::shared_ptr<Gpu>& gpu = placed.gpus[gpu_of_chip(chip, placed.world->chips(), placed.gpus.size())];
  const auto connect = [&](Stream* stream) {
    return connect_chip(make_device_link({.mesh = compiled.mesh,
                                          .chip = chip,
                                          .communicator = placed.world->communicator(chip),
                                          .driver = gpu->driver(),
                                          .toolbox = gpu->toolbox(),
                                          .stream = stream}));
  };
  const memory::MemoryPlan& plan = compiled.programs_of(chip).memory;
  return std::make_unique<CudaDevice>(gpu, CudaDevice::Options{.chip = chip,
                                                               .arena_bytes = plan.total_bytes,
                                                               .host_bytes = plan.of_host().bytes,
                                                               .steps = placed.steps,
                                                               .connect = connect});
}

RequiredKernels required_kernels(const compile::Compiled& compiled, const std::vector<int64_t>& chips) {
  RequiredKernels required;
  for (const int64_t chip : chips)
    for (const compile::Program& program : compiled.programs_of(chip).programs) add_required(program.graph, required);
  return required;
}

// All processes together, and what the first GPU has the others of this process have too.
void prepare_kernels_on(const Gpus& gpus, const RequiredKernels& required, collectives::World& world) {
  const Gpu& first = *gpus.front();
  first.attach();
  prepare_kernels(required, first.toolbox(), world);
  for (const std::shared_ptr<Gpu>& gpu : gpus) {
    if (gpu.get() == &first) continue;
    gpu->attach();
    prepare_same_kernels(required, first.toolbox(), gpu->toolbox());
  }
}

// All groups and messages of the programs are known now. On a card that processes share this counts what they take
// together.
void connect_on(const Gpu& gpu, collectives::World& world, LoadFacts& facts) {
  if (world.has_all_chips()) return;
  world.share("chips are loaded", "");  // which has the limit of a start; connecting that of a step
  gpu.attach();
  const int64_t free = gpu.free_bytes();
  facts.connecting_seconds = base::seconds_of([&] {
    for (const int64_t chip : world.local_chips())
      dynamic_cast<DeviceCommunicator&>(world.communicator(chip)).connect();
  });
  facts.connection_bytes = std::max<int64_t>(0, free - gpu.free_bytes());
}

}  // namespace

schedule::Target cuda_target(int64_t chips, const collectives::Transport& transport) {
  return {.name = "cuda",
          .runs =
              [](std::string_view op, const ops::NodeView& view) {
                const ops::OpDef* const def = ops::find_op(op);
                if (def != nullptr && def->is_collective) return base::Decision::yes();
                const Kernel* const kernel = find_kernel(op);
                if (kernel == nullptr)
                  return base::Decision::no("the cuda backend has no kernel for " + std::string(op));
                return kernel->supports ? kernel->supports(view) : base::Decision::yes();
              },
          .workspace_bytes = [chips, transport](std::string_view op, const ops::NodeView& view) -> int64_t {
            if (ops::op_def(op).is_collective) return device_link_workspace(op, view, chips, transport);
            const Kernel* const kernel = find_kernel(op);
            MEGACPP_CHECK(kernel != nullptr) << "the cuda backend has no kernel for " << op;
            return kernel->workspace_bytes ? kernel->workspace_bytes(view) : 0;
          },
          .least_seconds = [](std::string_view op, const ops::NodeView& view) -> double {
            const Kernel* const kernel = find_kernel(op);
            return kernel != nullptr && kernel->least_seconds ? kernel->least_seconds(view) : 0;
          },
          .alignment = kAlignment,
          .ops_per_byte = schedule::kGpuOpsPerByte,
          .full_rate_rows = kFullRateRows,
          .has_epilogues = true,
          .tiers = {ir::Tier::host},
          .separate_bytes = kSeparateBytes};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options,
                                 const LoadParts& parts) {
  std::shared_ptr<collectives::World> world = options.transport.make(world_of_run(compiled.mesh, options));
  try {
    const auto facts = std::make_shared<LoadFacts>();  // shared by what is asked while and after loading
    const Gpus gpus = timed(facts->context_seconds, [&] { return open_gpus(*world, parts); });
    require_fit(gpus, compiled, *world, options, *facts);
    const HostUse use = own_host_use(compiled, *world, options);
    require_host_memory(*world, use);
    facts->host_bytes = use.offloaded_bytes;
    prepare_kernels_on(gpus, required_kernels(compiled, world->local_chips()), *world);
    world = kept_with(gpus, make_device_world({.control = world, .gpus = gpus, .wait_limit = options.wait_limit}));
    const std::function<bool()> has_failed = [world] { return world->has_failed(); };
    const auto steps = std::make_shared<StepGraph>(StepGraph::Options{
        .driver = gpus.front()->driver(), .chips = world->local_chips().size(), .has_failed = has_failed});
    const auto device = [&compiled, facts, placed = Placed{gpus, world, steps}](int64_t chip) {
      return timed(facts->memory_seconds, [&] { return make_device(compiled, placed, chip); });
    };
    auto executable = std::make_unique<NativeExecutable>(
        compiled, options,
        NativeBackend{.path = path_on(gpus, *world),
                      .world = world,
                      .device = device,
                      .limits = facts->chip_limits,
                      .notes = [gpus, facts] { return notes_on(gpus, *facts); },
                      .load_parts = [gpus, facts](double chips) { return parts_on(gpus, *facts, chips); },
                      .repeats = [gpus] { return repeats_on(*gpus.front()); }});
    connect_on(*gpus.front(), *world, *facts);
    return executable;
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), collectives::reason_of(error));
    throw;
  }
}

}  // namespace megacpp::runtime::cuda
