// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/pjrt_backend.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/emit/custom_call.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/pjrt/program.h"
#include "megacpp/runtime/pjrt/program_cache.h"
#include "megacpp/runtime/pjrt/step_module.h"

namespace megacpp::runtime::pjrt {
namespace {

using Bytes = std::vector<std::byte>;

// Parts of an argument, gathered on the host.
struct Staged {
  Bytes bytes;
  std::set<size_t> written;  // which of them
};

// A stack of state as it was read last.
struct Fetched {
  int64_t chip = -1;
  size_t argument = 0;
  Bytes bytes;
};

LoadedProgram load_program(const Client& client, const std::string& text, const CompileOptions& options,
                           const std::filesystem::path& cache) {
  if (cache.empty()) return compile(client, text, options, "no cache");
  return ProgramCache(cache).compile(client, text, options);
}

class PjrtExecutable : public Executable {
 public:
  PjrtExecutable(const compile::Compiled& compiled, const BackendOptions& options)
      : compiled_(compiled),
        module_(module_of(compiled, options.placement, options.plugin)),
        plugin_(Plugin::load(options.plugin)),
        client_(client_for(plugin_, compiled.mesh.chips())),
        program_(
            load_program(client_, module_.text, options_for(client_.devices(), chips(), options.flags), options.cache)),
        limits_(options.limits),
        faults_(options.faults),
        local_chips_(static_cast<size_t>(chips())),
        arguments_(static_cast<size_t>(chips())),
        results_(static_cast<size_t>(chips())) {
    std::iota(local_chips_.begin(), local_chips_.end(), int64_t{0});
    if (const auto memory = program_.compiled().memory()) planned_bytes_ = memory->needed();
    require_fit();
    raise_faults(faults_, memory::OomClass::load, compiled_, limits_);
    for (size_t i = 0; i < module_.arguments.size(); ++i) {
      const emit::Port& port = module_.arguments[i];
      argument_[port.name] = {i, 0};
      for (size_t k = 0; k < port.stacked.size(); ++k) argument_[port.stacked[k]] = {i, k};
    }
    for (size_t i = 0; i < module_.results.size(); ++i) result_[module_.results[i].name] = i;
    for (size_t chip = 0; chip < arguments_.size(); ++chip) {
      arguments_[chip].resize(module_.arguments.size());
      staged_.emplace_back(module_.arguments.size());
    }
  }

  int64_t chips() const override { return compiled_.mesh.chips(); }
  const std::vector<int64_t>& local_chips() const override { return local_chips_; }

  void write_state(const std::string& name, int64_t chip, std::span<const std::byte> bytes) override {
    const auto at = argument_.find(name);
    if (at == argument_.end()) return;  // gradients begin every step as zeros and are no state here
    const auto [index, place] = at->second;
    const size_t c = static_cast<size_t>(chip);
    const emit::Port& port = module_.arguments[index];
    if (static_cast<int64_t>(bytes.size()) == port.local.bytes()) {
      arguments_[c][index].emplace(client_, device_of(c), port.local, bytes);
      return;
    }
    // One of several that are handed over together: tensors of a stack, or micro-batches.
    const size_t member = port.stacked.empty() ? static_cast<size_t>(micro_) : place;
    Staged& staged = staged_[c][index];
    if (staged.bytes.empty()) begin_staging(c, index, staged);
    MEGACPP_CHECK((member + 1) * bytes.size() <= staged.bytes.size())
        << name << ": " << bytes.size() << " bytes of " << staged.bytes.size();
    std::memcpy(staged.bytes.data() + member * bytes.size(), bytes.data(), bytes.size());
    staged.written.insert(member);
    if (staged.written.size() * bytes.size() == staged.bytes.size()) hand_over(c, index);
  }

  void read_state(const std::string& name, int64_t chip, std::span<std::byte> bytes) const override {
    const auto at = argument_.find(name);
    MEGACPP_CHECK(at != argument_.end()) << "no state is named '" << name << "'";
    const auto [index, place] = at->second;
    const std::optional<Buffer>& buffer = arguments_[static_cast<size_t>(chip)][index];
    const Staged& staged = staged_[static_cast<size_t>(chip)][index];
    if (!buffer && staged.bytes.empty()) {
      std::ranges::fill(bytes, std::byte{0});
      return;
    }
    if (staged.written.contains(place)) {
      std::memcpy(bytes.data(), staged.bytes.data() + place * bytes.size(), bytes.size());
      return;
    }
    if (module_.arguments[index].stacked.empty()) {
      buffer->to_host(bytes);
      return;
    }
    // Tensors of a stack are mostly read one after the other: it is fetched once.
    if (fetched_.chip != chip || fetched_.argument != index) {
      fetched_.bytes.resize(static_cast<size_t>(module_.arguments[index].local.bytes()));
      buffer->to_host(fetched_.bytes);
      fetched_.chip = chip;
      fetched_.argument = index;
    }
    std::memcpy(bytes.data(), fetched_.bytes.data() + place * bytes.size(), bytes.size());
  }

  std::optional<int64_t> state_bytes(const std::string& name, int64_t) const override {
    const auto at = argument_.find(name);
    if (at == argument_.end()) return std::nullopt;
    const emit::Port& port = module_.arguments[at->second.first];
    return port.local.bytes() / static_cast<int64_t>(std::max<size_t>(1, port.stacked.size()));
  }

  void run(size_t) override { execute(); }

  void run_step(const StepHooks& hooks) override {
    MEGACPP_REQUIRE(!hooks.check_values, E1505,
                    {.where = "--check-nans",
                     .got = "backend xla",
                     .wanted = "a backend that shows every node's result",
                     .next = "leave it out, or set backend: cpu"});
    const std::vector<compile::Action>& step = compiled_.stages[0].step;
    for (const compile::Action& action : step) {
      micro_ = action.micro;
      if (hooks.before)
        for (const int64_t chip : local_chips_) hooks.before(chip, action);
    }
    execute_step(steps_++);
    for (const compile::Action& action : step) {
      micro_ = action.micro;
      if (hooks.after)
        for (const int64_t chip : local_chips_) hooks.after(chip, action);
    }
  }

  std::span<const std::byte> output(size_t, const std::string& name, int64_t chip) const override {
    const auto at = result_.find(name);
    MEGACPP_CHECK(at != result_.end()) << "the program has no output '" << name << "'";
    const ir::TensorType& type = module_.results[at->second].local;
    Bytes& bytes = read_[{name, chip}];
    if (bytes.empty()) {
      bytes.resize(static_cast<size_t>(type.bytes()));
      results_[static_cast<size_t>(chip)][at->second]->to_host(bytes);
    }
    if (!module_.results[at->second].is_per_micro_step) return bytes;
    const size_t size = static_cast<size_t>(dtype_bytes(type.dtype));
    return std::span(bytes).subspan(static_cast<size_t>(micro_) * size, size);
  }

  ChipMemory memory(int64_t chip) const override {
    const std::optional<DeviceMemory> measured = client_.memory(device_of(static_cast<size_t>(chip)));
    // A TPU keeps the temporaries of programs apart, as reserved.
    const int64_t own = limits_.empty() ? 0 : limits_[static_cast<size_t>(chip)];
    return {.used_bytes = measured ? measured->bytes_in_use + measured->bytes_reserved.value_or(0) : 0,
            .limit_bytes = own > 0    ? own
                           : measured ? measured->bytes_limit.value_or(0)
                                      : 0,
            .planned_peak_bytes = planned_bytes_,
            .measured_peak_bytes = measured ? measured->peak_bytes_in_use.value_or(measured->bytes_in_use) +
                                                  measured->peak_bytes_reserved.value_or(0)
                                            : 0};
  }

  std::string path() const override { return plugin_.file().filename().string() + ", " + plugin_.identity(); }
  Counters counters() const override { return client_.counters(); }

  std::vector<std::pair<std::string, double>> op_seconds() const override { return {}; }
  const std::vector<TraceEvent>& trace(int64_t) const override { return no_trace_; }

 private:
  // By the compiler's own account, since it and not our plan decides what a chip needs.
  void require_fit() const {
    memory::MemoryPlan needed;
    needed.total_bytes = planned_bytes_;
    const std::vector<const memory::MemoryPlan*> plans(static_cast<size_t>(chips()), &needed);
    const memory::FitCheck fit = memory::check_fit(plans, {.of_chips = limits_});
    if (fit.misfit) throw memory::misfit_error(fit, compiled_.mesh, host_name());
  }

  void execute_step(int64_t step) {
    for (const Fault& fault : faults_)
      if (fault == Fault{.chip = fault.chip, .step = step} && fault.chip < chips())
        throw injected_error(fault, compiled_, memory(fault.chip).limit_bytes);
    try {
      execute();
    } catch (const memory::OutOfMemory& error) {
      throw error.in_step(step);
    }
  }

  size_t device_of(size_t chip) const { return program_.devices()[chip]; }

  // What is not written keeps its value: that on the device, or zeros, as state begins.
  void begin_staging(size_t chip, size_t index, Staged& staged) const {
    staged.bytes.resize(static_cast<size_t>(module_.arguments[index].local.bytes()));
    const std::optional<Buffer>& buffer = arguments_[chip][index];
    if (buffer && !module_.arguments[index].stacked.empty()) buffer->to_host(staged.bytes);
  }

  void hand_over(size_t chip, size_t index) {
    if (staged_[chip][index].bytes.empty()) begin_staging(chip, index, staged_[chip][index]);
    const Staged staged = std::exchange(staged_[chip][index], {});
    const ir::TensorType& type = module_.arguments[index].local;
    arguments_[chip][index].emplace(client_, device_of(chip), type, staged.bytes);
    fetched_.chip = -1;
  }

  void execute() {
    std::vector<std::vector<const Buffer*>> given(arguments_.size());
    for (size_t chip = 0; chip < arguments_.size(); ++chip)
      for (size_t i = 0; i < module_.arguments.size(); ++i) {
        if (!arguments_[chip][i] || !staged_[chip][i].written.empty()) hand_over(chip, i);
        given[chip].push_back(&*arguments_[chip][i]);
      }
    fetched_.chip = -1;
    read_.clear();
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

  const compile::Compiled& compiled_;
  emit::Module module_;
  const Plugin& plugin_;
  Client client_;
  LoadedProgram program_;
  std::map<std::string, std::pair<size_t, size_t>> argument_;  // by name: where, and which of a stack
  std::map<std::string, size_t> result_;                       // by name
  std::vector<int64_t> limits_;                                // by chip, as BackendOptions
  Faults faults_;
  std::vector<int64_t> local_chips_;                           // all: one client drives every device of the mesh
  int64_t steps_ = 0;                                          // run so far
  std::vector<std::vector<std::optional<Buffer>>> arguments_;  // [chip][argument]: state, and what a step was given
  std::vector<std::vector<Staged>> staged_;                    // [chip][argument]: on its way to the device
  std::vector<std::vector<std::optional<Buffer>>> results_;    // [chip][result] of the last step; state has moved on
  mutable Fetched fetched_;
  mutable std::map<std::pair<std::string, int64_t>, Bytes> read_;
  std::vector<TraceEvent> no_trace_;
  int64_t planned_bytes_ = 0;  // of a chip; 0 where the plugin keeps no account
  int64_t micro_ = 0;          // the micro-batch that is written or read
};

}  // namespace

schedule::Target xla_target(emit::Placement placement, bool has_cudnn) {
  return {.name = "xla",
          .runs =
              [has_cudnn](std::string_view op, const ops::NodeView& view) {
                if (!ops::op_def(op).is_composite()) return base::Decision::yes();
                const emit::CustomCall* call = has_cudnn ? emit::find_custom_call(op) : nullptr;
                return call != nullptr ? call->takes(view) : base::Decision::no("XLA gets its decomposition");
              },
          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
          .schedules_itself = true,
          .partitions_itself = placement == emit::Placement::xla};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const BackendOptions& options) {
  return std::make_unique<PjrtExecutable>(compiled, options);
}

}  // namespace megacpp::runtime::pjrt
