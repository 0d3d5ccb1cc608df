// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/step_module.h"

#include <numeric>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/xla/pjrt/process_part.h"
#include "megacpp/program/emit/step.h"

namespace megacpp::runtime::pjrt {
namespace {

// The CPU plugin multiplies only what it returns. Of a reduce-scatter over the whole of a square v6e slice libtpu makes
// an all-reduce, of twice the bytes, and slices what it leaves; over rows, columns and all other groups it does not
// (bench/results/2026-11-18-v6e-square-slices.txt).
ops::CompilerTraits traits_of(plugins::PluginKind kind) {
  return {.has_mixed_products = kind != plugins::PluginKind::cpu,
          .has_square_scatters = kind != plugins::PluginKind::tpu};
}

}  // namespace

emit::Module module_of(const compile::Compiled& compiled, const ModuleOptions& wanted) {
  MEGACPP_CHECK(compiled.stages.size() == 1) << compiled.stages.size() << " stages, which the backend refuses";
  const compile::StagePrograms& chip = compiled.stages[0];
  const emit::FunctionOptions options{.has_loops = wanted.has_loops,
                                      .compiler = traits_of(plugins::kind_of_file(wanted.plugin))};
  using compile::ProgramKind;
  for (const ProgramKind alone : {ProgramKind::gradients, ProgramKind::inference}) {
    if (!chip.has(alone)) continue;
    const compile::Program& program = chip.find(alone);
    return emit::write_program(program.graph, compiled.mesh, chip.placements(), program.outputs, wanted.placement,
                               options);
  }
  const compile::Program& micro_step = chip.find(ProgramKind::micro_step);
  return emit::write_step({.micro_step = micro_step.graph,
                           .update = chip.find(ProgramKind::update).graph,
                           .micro_steps = static_cast<int64_t>(chip.step.size()) - 1,
                           .inputs = chip.placements(),
                           .reports = micro_step.outputs},
                          compiled.mesh, wanted.placement, options);
}

CompileOptions options_on(std::vector<int64_t> device_ids, std::map<std::string, FlagValue> flags) {
  const int64_t chips = std::ssize(device_ids);
  return {.partitions = chips,
          .spmd_partitioning = chips > 1,
          .shardy = chips > 1,
          .device_ids = std::move(device_ids),
          .flags = std::move(flags)};
}

CompileOptions options_for(std::span<const DeviceDescription> devices, int64_t chips,
                           std::map<std::string, FlagValue> flags) {
  std::vector<int64_t> ids;
  for (const DeviceDescription& device : devices.first(static_cast<size_t>(chips))) ids.push_back(device.id);
  return options_on(std::move(ids), std::move(flags));
}

Client client_for(const Plugin& plugin, int64_t chips) {
  ProcessPart whole{.chips = {std::vector<int64_t>(static_cast<size_t>(chips))}};
  std::iota(whole.chips[0].begin(), whole.chips[0].end(), int64_t{0});
  return Client(plugin, request_to_compile(whole, plugins::kind_of_file(plugin.file())));
}

}  // namespace megacpp::runtime::pjrt
