// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/pjrt/pjrt_backend.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/pjrt/program.h"

namespace megacpp::runtime::pjrt {
namespace {

using Bytes = std::vector<std::byte>;

emit::Module module_of(const compile::Compiled& compiled, emit::Placement placement) {
  MEGACPP_REQUIRE(compiled.pipeline.size() == 1, E1505,
                  {.where = "layout.pipeline_parallel",
                   .got = std::to_string(compiled.pipeline.size()) + " stages",
                   .wanted = "no pipeline: every device runs the same program",
                   .next = "set layout.pipeline_parallel: 1, or backend: cpu"});
  const compile::ChipPrograms& chip = compiled.pipeline[0];
  if (chip.programs.size() == 1)
    return emit::write_program(chip.programs[0], compiled.mesh, chip.inputs, chip.outputs[0], placement);
  const int64_t micro_steps = static_cast<int64_t>(chip.step.size()) - 1;
  return emit::write_step(
      {chip.programs[compile::kMicroStep], chip.programs[compile::kUpdate], micro_steps, chip.inputs}, compiled.mesh,
      placement);
}

Client client_for(const Plugin& plugin, int64_t chips) {
  // Only the CPU plugin makes as many devices as it is asked for, and refuses nothing else by this name.
  const bool is_cpu = plugin.file().filename().string().find("cpu") != std::string::npos;
  std::vector<NamedValue> options;
  if (is_cpu) options.push_back({"cpu_device_count", chips});
  return Client(plugin, {.devices = chips, .options = options});
}

class PjrtExecutable : public Executable {
 public:
  PjrtExecutable(const compile::Compiled& compiled, const BackendOptions& options)
      : compiled_(compiled),
        module_(module_of(compiled, options.placement)),
        client_(client_for(Plugin::load(options.plugin), compiled.mesh.chips())),
        program_(compile(
            client_, module_.text,
            {.partitions = chips(), .spmd_partitioning = chips() > 1, .shardy = chips() > 1, .flags = options.flags},
            "first use")),
        arguments_(static_cast<size_t>(chips())),
        results_(static_cast<size_t>(chips())) {
    for (size_t i = 0; i < module_.arguments.size(); ++i) argument_[module_.arguments[i].name] = i;
    for (size_t i = 0; i < module_.results.size(); ++i) result_[module_.results[i].name] = i;
    for (size_t chip = 0; chip < arguments_.size(); ++chip) {
      arguments_[chip].resize(module_.arguments.size());
      staged_.emplace_back(module_.arguments.size());
    }
  }

  int64_t chips() const override { return compiled_.mesh.chips(); }

  void write_state(const std::string& name, int64_t chip, std::span<const std::byte> bytes) override {
    const auto at = argument_.find(name);
    if (at == argument_.end()) return;  // gradients begin every step as zeros and are no state here
    const size_t index = at->second, c = static_cast<size_t>(chip);
    const ir::TensorType& type = module_.arguments[index].local;
    if (static_cast<int64_t>(bytes.size()) == type.bytes()) {
      arguments_[c][index].emplace(client_, device_of(c), type, bytes);
      return;
    }
    // One of the micro-batches that are handed over together.
    Bytes& all = staged_[c][index];
    all.resize(static_cast<size_t>(type.bytes()));
    const size_t offset = static_cast<size_t>(micro_) * bytes.size();
    MEGACPP_CHECK(offset + bytes.size() <= all.size()) << name << ": " << bytes.size() << " bytes of " << all.size();
    std::memcpy(all.data() + offset, bytes.data(), bytes.size());
  }

  void read_state(const std::string& name, int64_t chip, std::span<std::byte> bytes) const override {
    const auto at = argument_.find(name);
    MEGACPP_CHECK(at != argument_.end()) << "no state is named '" << name << "'";
    const std::optional<Buffer>& buffer = arguments_[static_cast<size_t>(chip)][at->second];
    MEGACPP_CHECK(buffer.has_value()) << name << " was never written";
    buffer->to_host(bytes);
  }

  void run(size_t) override { execute(); }

  void run_step(const StepHooks& hooks) override {
    MEGACPP_REQUIRE(!hooks.check_values, E1505,
                    {.where = "--check-nans",
                     .got = "backend xla",
                     .wanted = "a backend that shows every node's result",
                     .next = "leave it out, or set backend: cpu"});
    const std::vector<compile::Action>& step = compiled_.pipeline[0].step;
    for (const compile::Action& action : step) {
      micro_ = action.micro;
      for (int64_t chip = 0; hooks.before && chip < chips(); ++chip) hooks.before(chip, action);
    }
    execute();
    for (const compile::Action& action : step) {
      micro_ = action.micro;
      for (int64_t chip = 0; hooks.after && chip < chips(); ++chip) hooks.after(chip, action);
    }
  }

  std::span<const std::byte> output(size_t, const std::string& name, int64_t chip) const override {
    const auto at = result_.find(name);
    MEGACPP_CHECK(at != result_.end()) << "the program has no output '" << name << "'";
    const ir::TensorType& type = module_.results[at->second].local;
    Bytes& bytes = read_[{name, chip}];
    bytes.resize(static_cast<size_t>(type.bytes()));
    results_[static_cast<size_t>(chip)][at->second]->to_host(bytes);
    const bool is_per_micro_step = type.shape.size() == 1 && compiled_.pipeline[0].programs.size() > 1;
    if (!is_per_micro_step) return bytes;
    const size_t size = static_cast<size_t>(dtype_bytes(type.dtype));
    return std::span(bytes).subspan(static_cast<size_t>(micro_) * size, size);
  }

  ChipMemory memory(int64_t chip) const override {
    const std::optional<CompiledMemory> planned = program_.compiled().memory();
    const std::optional<DeviceMemory> measured = client_.memory(device_of(static_cast<size_t>(chip)));
    return {.planned_peak_bytes = planned ? planned->peak : 0,
            .measured_peak_bytes = measured ? measured->peak_bytes_in_use.value_or(measured->bytes_in_use) : 0};
  }

  std::vector<std::pair<std::string, double>> op_seconds() const override { return {}; }
  const std::vector<TraceEvent>& trace(int64_t) const override { return no_trace_; }

 private:
  size_t device_of(size_t chip) const { return program_.devices()[chip]; }

  void execute() {
    std::vector<std::vector<const Buffer*>> given(arguments_.size());
    for (size_t chip = 0; chip < arguments_.size(); ++chip)
      for (size_t i = 0; i < module_.arguments.size(); ++i) {
        std::optional<Buffer>& buffer = arguments_[chip][i];
        Bytes& staged = staged_[chip][i];
        const ir::TensorType& type = module_.arguments[i].local;
        if (!buffer && staged.empty()) staged.resize(static_cast<size_t>(type.bytes()));  // state begins as zeros
        if (!staged.empty()) buffer.emplace(client_, device_of(chip), type, staged);
        staged.clear();
        given[chip].push_back(&*buffer);
      }
    Execution execution = program_.execute(given);
    for (size_t chip = 0; chip < arguments_.size(); ++chip) {
      results_[chip].clear();
      for (size_t i = 0; i < module_.results.size(); ++i) {
        Buffer& made = execution.outputs[chip][i];
        const auto state = argument_.find(module_.results[i].name);
        if (state == argument_.end()) {
          results_[chip].emplace_back(std::move(made));
        } else {
          arguments_[chip][state->second].emplace(std::move(made));
          results_[chip].emplace_back(std::nullopt);
        }
      }
    }
  }

  const compile::Compiled& compiled_;
  emit::Module module_;
  Client client_;
  LoadedProgram program_;
  std::map<std::string, size_t> argument_, result_;            // by name
  std::vector<std::vector<std::optional<Buffer>>> arguments_;  // [chip][argument]: state, and what a step was given
  std::vector<std::vector<Bytes>> staged_;                     // [chip][argument]: on its way to the device
  std::vector<std::vector<std::optional<Buffer>>> results_;    // [chip][result] of the last step; state has moved on
  mutable std::map<std::pair<std::string, int64_t>, Bytes> read_;
  std::vector<TraceEvent> no_trace_;
  int64_t micro_ = 0;  // the micro-batch that is written or read
};

}  // namespace

schedule::Target xla_target(emit::Placement placement) {
  return {.name = "xla",
          .runs =
              [](std::string_view op, const ops::NodeView&) {
                return ops::op_def(op).is_composite() ? base::Decision::no("XLA gets its decomposition")
                                                      : base::Decision::yes();
              },
          .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
          .schedules_itself = true,
          .partitions_itself = placement == emit::Placement::xla};
}

std::unique_ptr<Executable> load(const compile::Compiled& compiled, const BackendOptions& options) {
  return std::make_unique<PjrtExecutable>(compiled, options);
}

}  // namespace megacpp::runtime::pjrt
