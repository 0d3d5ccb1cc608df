// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/runtime/hang_watch.h"
#include "megacpp/machine/runtime/host_use.h"
#include "megacpp/machine/xla/pjrt/client_state.h"
#include "megacpp/machine/xla/pjrt/process_part.h"
#include "megacpp/machine/xla/pjrt/program.h"
#include "megacpp/machine/xla/pjrt/program_cache.h"
#include "megacpp/machine/xla/pjrt/step_module.h"
#include "megacpp/program/emit/custom_call.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::pjrt {
namespace {

using Bytes = std::vector<std::byte>;

// An argument on its way to a device: tensors of a stack, or the micro-batches of a step.
struct HostCopy {
  Bytes bytes;
  std::set<size_t> written;  // members of a stack; of a batch any entry says that it has changed
};

// A stack of state as it was read last.
struct ReadStack {
  int64_t chip = -1;
  size_t argument = 0;
  Bytes bytes;
};

// Where the tensors of a module's arguments or results are, by name: which of them, and which member of a stack.
using Places = std::map<std::string, std::pair<size_t, size_t>>;

Places places_of(const std::vector<emit::Port>& ports) {
  Places places;
  for (size_t i = 0; i < ports.size(); ++i) {
    places[ports[i].name] = {i, 0};
    for (size_t k = 0; k < ports[i].stacked.size(); ++k) places[ports[i].stacked[k]] = {i, k};
  }
  return places;
}

// Refused before XLA compiles anything.
emit::Module require_reports(emit::Module module, const std::vector<FetchedOutput>& fetched) {
  const Places arguments = places_of(module.arguments), results = places_of(module.results);
  for (const FetchedOutput& output : fetched)
    MEGACPP_REQUIRE(results.contains(output.name) && !arguments.contains(output.name), E1505,
                    {.where = "fetched output '" + output.name + "'",
                     .got = "backend xla, whose training step keeps state and sums of gradients to itself",
                     .wanted = "an output that is no state",
                     .next = "fetch loss or another metric, or set backend: cpu"});
  return module;
}

// Clients of several processes compile together, each a part of what is tried out: none may have its program already.
LoadedProgram load_program(const Client& client, const std::string& text, const CompileOptions& options,
                           const std::filesystem::path& cache) {
  const bool is_joined = client.state()->store != nullptr;
  if (is_joined) return compile(client, text, options, "several processes");
  if (cache.empty()) return compile(client, text, options, "no cache");
  return ProgramCache(cache).compile(client, text, options);
}

// Those of chips of this process: another's are raised there.
Faults local_faults(Faults faults, const std::vector<int64_t>& local_chips) {
  std::erase_if(faults, [&](const Fault& fault) { return std::ranges::count(local_chips, fault.chip) == 0; });
  return faults;
}

class PjrtExecutable : public Executable {
 public:
  PjrtExecutable(const compile::Compiled& compiled, const PluginOptions& plugin, const LoadOptions& options,
                 ProcessPart part)
      : Executable(compiled, options.fetches),
        module_(require_reports(module_of(compiled, {plugin.placement, plugin.plugin, plugin.has_loops}),
                                ports(0).outputs)),
        argument_(places_of(module_.arguments)),
        result_(places_of(module_.results)),
        plugin_(Plugin::load(plugin.plugin)),
        part_(std::move(part)),
        client_(plugin_, request_for(part_, plugins::kind_of_file(plugin.plugin))),
        device_ids_(device_ids(client_, part_, options.wait_limit)),
        program_(load_program(client_, module_.text, options_on(device_ids_, plugin.flags), plugin.cache)),
        limits_(options.limits),
        faults_(local_faults(options.faults, local_chips())),
        awaited_(local_chips().size()),
        arguments_(local_chips().size()),
        results_(local_chips().size()) {
    require_own_devices();
    if (part_.store && options.on_hang) watch_hangs(options);
    if (const auto memory = program_.compiled().memory()) planned_bytes_ = memory->needed();
    lower_limits();
    require_fit();
    raise_faults(faults_, memory::OomClass::load, compiled, limits_);
    for (size_t chip = 0; chip < arguments_.size(); ++chip) {
      arguments_[chip].resize(module_.arguments.size());
      host_.emplace_back(module_.arguments.size());
    }
  }

  const std::vector<int64_t>& local_chips() const override { return part_.local_chips(); }

  std::optional<int64_t> state_bytes(const std::string& name, int64_t) const override {
    const auto at = argument_.find(name);
    if (at == argument_.end()) return std::nullopt;
    const emit::Port& port = module_.arguments[at->second.first];
    return port.local.bytes() / static_cast<int64_t>(std::max<size_t>(1, port.stacked.size()));
  }

  void run_step(StepMode mode) override {
    MEGACPP_REQUIRE(mode == StepMode::plain, E1505,
                    {.where = "--check-nans",
                     .got = "backend xla",
                     .wanted = "a backend that shows every node's result",
                     .next = "leave it out, or set backend: cpu"});
    const int64_t step = steps_++;
    for (const Fault& fault : faults_)
      if (fault == Fault{.chip = fault.chip, .step = step})
        throw injected_error(fault, compiled(), memory(fault.chip).limit_bytes.value_or(0));
    in_pending_steps([this] { execute(); });
  }

  // Nobody waits for the devices of a process that has failed longer than its watch allows.
  void abort(const std::string& reason) override {
    if (part_.store) part_.store->abort(reason);
  }

  ChipMemory memory(int64_t chip) const override {
    const std::optional<DeviceMemory> measured = client_.memory(device_of(index_of(chip)));
    ChipMemory memory{.planned_peak_bytes = planned_bytes_};
    if (measured) {
      // A TPU keeps the temporaries of programs apart, as reserved.
      memory.used_bytes = measured->bytes_in_use + measured->bytes_reserved.value_or(0);
      memory.limit_bytes = measured->bytes_limit;
      if (measured->peak_bytes_in_use)
        memory.measured_peak_bytes = *measured->peak_bytes_in_use + measured->peak_bytes_reserved.value_or(0);
    }
    const int64_t own = limits_.empty() ? 0 : limits_[static_cast<size_t>(chip)];
    if (own > 0) memory.limit_bytes = own;
    return memory;
  }

  std::string path() const override {
    const std::string processes = part_.store ? ", " + std::to_string(part_.chips.size()) + " processes" : "";
    return plugin_.file().filename().string() + processes + ", " + plugin_.identity();
  }
  Counters counters() const override { return client_.counters(); }
  int64_t programs_made() const override { return client_.programs_made(); }

 protected:
  void put_state(const compile::StateTensor& tensor, int64_t chip, std::span<const std::byte> part) override {
    const auto [index, place] = argument_.at(tensor.name);
    const size_t c = index_of(chip);
    const emit::Port& port = module_.arguments[index];
    if (port.stacked.empty()) {
      arguments_[c][index].emplace(client_, device_of(c), port.local, part);
      return;
    }
    HostCopy& host = host_[c][index];
    if (host.bytes.empty()) begin_copy(c, index);
    std::memcpy(host.bytes.data() + place * part.size(), part.data(), part.size());
    host.written.insert(place);
    if (host.written.size() == port.stacked.size()) hand_over_stack(c, index);
  }

  void get_state(const compile::StateTensor& tensor, int64_t chip, std::span<std::byte> part) const override {
    const auto [index, place] = argument_.at(tensor.name);
    const std::optional<Buffer>& buffer = arguments_[index_of(chip)][index];
    const HostCopy& host = host_[index_of(chip)][index];
    const HangWatch::Step watched(watch_.get());
    if (!buffer && host.bytes.empty()) {
      std::ranges::fill(part, std::byte{0});
      return;
    }
    if (host.written.contains(place)) {
      std::memcpy(part.data(), host.bytes.data() + place * part.size(), part.size());
      return;
    }
    if (module_.arguments[index].stacked.empty()) {
      buffer->to_host(part);
      return;
    }
    // Tensors of a stack are mostly read one after the other: it is copied to the host once.
    if (read_.chip != chip || read_.argument != index) {
      read_.bytes.resize(static_cast<size_t>(module_.arguments[index].local.bytes()));
      buffer->to_host(read_.bytes);
      read_.chip = chip;
      read_.argument = index;
    }
    std::memcpy(part.data(), read_.bytes.data() + place * part.size(), part.size());
  }

  // Kept on the host until the step begins: its micro-batches travel together.
  void put_batch(const StagedInput& input, int64_t micro, int64_t chip, std::span<const std::byte> part) override {
    const size_t c = index_of(chip), index = argument_.at(input.name).first;
    HostCopy& host = host_[c][index];
    host.bytes.resize(static_cast<size_t>(module_.arguments[index].local.bytes()));
    const size_t member = static_cast<size_t>(micro);
    MEGACPP_CHECK((member + 1) * part.size() <= host.bytes.size())
        << input.name << ": " << part.size() << " bytes of " << host.bytes.size();
    std::memcpy(host.bytes.data() + member * part.size(), part.data(), part.size());
    host.written.insert(member);
  }

  void get_output(const FetchedOutput& output, int64_t chip, std::span<std::byte> values) const override {
    MEGACPP_CHECK(steps_ > 0) << "'" << output.name << "' is fetched before the first step";
    const auto [index, place] = result_.at(output.name);
    const Buffer& buffer = *results_[index_of(chip)][index];
    const size_t members = module_.results[index].stacked.size();
    if (members == 0) {
      await(chip, [&] { buffer.to_host(values); });
      return;
    }
    // [micro-steps, members, ...]: blocks are fetched one after the other, so the stack is copied to the host once.
    Bytes& stack = fetched_[{chip, index}];
    if (stack.empty()) {
      stack.resize(values.size() * members);
      await(chip, [&] { buffer.to_host(stack); });
    }
    const size_t size = values.size() / output.actions.size();
    for (size_t micro = 0; micro < output.actions.size(); ++micro)
      std::memcpy(values.data() + micro * size, stack.data() + (micro * members + place) * size, size);
  }

 private:
  // Devices run ahead of the host, each on its own: what fails now may have failed in any step that the host has not
  // seen the results of on every chip.
  template <typename Body>
  void in_pending_steps(const Body& body) const {
    const HangWatch::Step watched(watch_.get());
    try {
      body();
    } catch (const memory::OutOfMemory& error) {
      const int64_t awaited = std::ranges::min(awaited_);
      throw error.in_steps(std::min(awaited, steps_ - 1), steps_ - 1);
    }
  }

  // A copy to the host, after which every step so far has ended well on that chip.
  template <typename Copy>
  void await(int64_t chip, const Copy& copy) const {
    in_pending_steps(copy);
    awaited_[index_of(chip)] = steps_;
  }

  // To what the client has of a device: the pool that it was told to take, where it took one.
  void lower_limits() {
    for (size_t chip = 0; chip < local_chips().size(); ++chip) {
      const std::optional<DeviceMemory> memory = client_.memory(device_of(chip));
      const int64_t bytes = memory ? memory->bytes_limit.value_or(0) : 0;
      if (bytes <= 0) continue;
      limits_.resize(static_cast<size_t>(chips()));  // of which it may have none
      int64_t& limit = limits_[static_cast<size_t>(local_chips()[chip])];
      limit = limit > 0 ? std::min(limit, bytes) : bytes;
    }
  }

  // By the compiler's own account, since it and not our plan decides what a chip needs.
  void require_fit() const {
    memory::MemoryPlan needed;
    needed.total_bytes = planned_bytes_.value_or(0);
    const std::vector<const memory::MemoryPlan*> plans(static_cast<size_t>(chips()), &needed);
    const memory::FitCheck fit = memory::check_fit(plans, {.of_chips = limits_});
    if (fit.misfit) throw memory::misfit_error(fit, compiled().mesh, host_name());
  }

  // Below, "chip" is the place of a chip among those of this process.
  size_t index_of(int64_t chip) const {
    const auto at = std::ranges::lower_bound(local_chips(), chip);
    MEGACPP_CHECK(at != local_chips().end() && *at == chip) << "chip " << chip << " is of another process";
    return static_cast<size_t>(at - local_chips().begin());
  }
  size_t device_of(size_t chip) const { return program_.devices()[chip]; }

  // The plugin lists a program's devices in the order of its partitions, those of this process alone.
  void require_own_devices() const {
    MEGACPP_CHECK(program_.devices().size() == local_chips().size())
        << "a program on " << program_.devices().size() << " devices for " << local_chips().size() << " chips";
    for (size_t chip = 0; chip < local_chips().size(); ++chip)
      MEGACPP_CHECK(client_.devices()[device_of(chip)].id == device_ids_[static_cast<size_t>(local_chips()[chip])])
          << "the program has put chip " << local_chips()[chip] << " elsewhere";
  }

  // A device that waits for one of another process cannot be told that this has failed, and knows no limit.
  void watch_hangs(const LoadOptions& options) {
    HangWatch::Options watch;
    watch.has_failed = [store = part_.store] { return !store->failure().empty(); };
    watch.limit = hang_limit(options.wait_limit);
    watch.step_limit = options.wait_limit;
    watch.on_hang = [this, limit = options.wait_limit, say = options.on_hang] { say(hang_error(limit)); };
    watch_ = std::make_unique<HangWatch>(std::move(watch));
  }

  base::Error hang_error(std::chrono::seconds limit) const {
    const std::string where = "process " + std::to_string(part_.process) + " on " + host_name();
    if (const std::string failure = part_.store->failure(); !failure.empty())
      return {base::Code::E3102,
              {.where = where,
               .got = "a step that has not ended since the run failed: " + failure,
               .wanted = "every device to come back from its work",
               .next = "mend what the process that failed reports; this process is ended"}};
    return {base::Code::E3102,
            {.where = where,
             .got = "a step that has not ended for " + std::to_string(limit.count()) +
                    " s, though no process has failed; " + part_.store->progress(),
             .wanted = "a step that takes less than train.wait_limit: devices compute, or wait for each other",
             .next = "raise train.wait_limit if they are only slow; on GPUs NCCL_DEBUG=INFO says where they wait; this "
                     "process is ended"}};
  }

  // What is not written keeps its value: that on the device, or zeros, as state begins.
  void begin_copy(size_t chip, size_t index) {
    Bytes& bytes = host_[chip][index].bytes;
    bytes.resize(static_cast<size_t>(module_.arguments[index].local.bytes()));
    if (arguments_[chip][index]) arguments_[chip][index]->to_host(bytes);
  }

  void hand_over_stack(size_t chip, size_t index) {
    if (host_[chip][index].bytes.empty()) begin_copy(chip, index);
    const HostCopy host = std::exchange(host_[chip][index], {});
    arguments_[chip][index].emplace(client_, device_of(chip), module_.arguments[index].local, host.bytes);
    read_.chip = -1;
  }

  // The device gets a copy, so that nobody waits for it and the host may stage the next step.
  void hand_over_batch(size_t chip, size_t index) {
    HostCopy& host = host_[chip][index];
    host.written.clear();
    arguments_[chip][index].emplace(client_, device_of(chip), module_.arguments[index].local, host.bytes,
                                    HostBytes::copied);
  }

  bool is_batch(size_t index) const { return ports(0).find_input(module_.arguments[index].name) != nullptr; }

  void execute() {
    std::vector<std::vector<const Buffer*>> given(arguments_.size());
    for (size_t chip = 0; chip < arguments_.size(); ++chip)
      for (size_t i = 0; i < module_.arguments.size(); ++i) {
        const bool has_changed = !host_[chip][i].written.empty();
        if (is_batch(i) && has_changed)
          hand_over_batch(chip, i);
        else if (!arguments_[chip][i] || has_changed)
          hand_over_stack(chip, i);
        given[chip].push_back(&*arguments_[chip][i]);
      }
    read_.chip = -1;
    fetched_.clear();
    Execution execution = program_.execute(given);
    for (size_t chip = 0; chip < arguments_.size(); ++chip) {
      results_[chip].clear();
      for (size_t i = 0; i < module_.results.size(); ++i) {
        Buffer& made = execution.outputs[chip][i];
        const auto state = argument_.find(module_.results[i].name);
        if (state == argument_.end()) {
          results_[chip].emplace_back(std::move(made));
        } else {
          arguments_[chip][state->second.first].emplace(std::move(made));
          results_[chip].emplace_back(std::nullopt);
        }
      }
    }
  }

  emit::Module module_;
  Places argument_, result_;
  const Plugin& plugin_;
  ProcessPart part_;
  Client client_;
  std::vector<int64_t> device_ids_;  // by chip of the mesh
  LoadedProgram program_;
  std::vector<int64_t> limits_;  // by chip of the mesh, as LoadOptions; of local ones no more than the client has
  Faults faults_;
  std::unique_ptr<HangWatch> watch_;                           // over processes, where somebody asks for it
  int64_t steps_ = 0;                                          // run so far
  mutable std::vector<int64_t> awaited_;                       // by chip: of these, whose results the host has seen
  std::vector<std::vector<std::optional<Buffer>>> arguments_;  // [chip][argument]: state, and what a step was given
  std::vector<std::vector<HostCopy>> host_;                    // [chip][argument]: on its way to the device
  std::vector<std::vector<std::optional<Buffer>>> results_;    // [chip][result] of the last step; state has moved on
  mutable ReadStack read_;
  mutable std::map<std::pair<int64_t, size_t>, Bytes> fetched_;  // by chip and result: stacks of the last step
  std::optional<int64_t> planned_bytes_;                         // of a chip; nothing where the plugin keeps no account
};

}  // namespace

schedule::Target xla_target(emit::Placement placement, const CudnnCalls& cudnn) {
  const bool has_cudnn = cudnn.are_wanted && cudnn.can_be;
  return {.name = "xla",
          .runs = [has_cudnn](std::string_view op,
                              const ops::NodeView& view) { return emit::is_emitted_whole(op, view, has_cudnn); },
          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
          .wants_whole = [is_wanted = cudnn.are_wanted](
                             std::string_view op) { return is_wanted && emit::find_custom_call(op) != nullptr; },
          // XLA would undo the split of a sequence that a loop over it cuts at places known when it runs.
          .compiles_loops = placement == emit::Placement::megacpp,
          .schedules_itself = true,
          .partitions_itself = placement == emit::Placement::xla};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const PluginOptions& plugin,
                                 const LoadOptions& options) {
  const std::shared_ptr<collectives::World> world = options.transport.make(world_of_run(compiled.mesh, options));
  std::shared_ptr<collectives::KeyValues> store;  // outlives what fails: it ends once the world is aborted
  try {
    const plugins::PluginKind kind = plugins::kind_of_file(plugin.plugin);
    // Where devices have memory of their own; before the store, whose thread agrees on nothing else.
    if (kind != plugins::PluginKind::cpu) require_host_memory(*world, own_host_use(compiled, *world, options));
    ProcessPart part = join_processes(world, kind, options.wait_limit);
    store = part.store;
    return std::make_unique<PjrtExecutable>(compiled, plugin, options, std::move(part));
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), collectives::reason_of(error));
    throw;
  }
}

}  // namespace megacpp::runtime::pjrt
