// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/assumptions.h"

#include <optional>

#include "megacpp/fit/lane.h"
#include "megacpp/launch/build.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/cpu/host_rates.h"
#include "megacpp/runtime/plugins/plugin_places.h"

namespace megacpp::launch {

namespace plugins = runtime::plugins;

namespace {

// What the devices of a plugin hold is known to the plugin alone.
constexpr int64_t kUnknownMemory = int64_t{1} << 60;

// Nothing for our own backend and for XLA's CPU devices: these are this machine.
std::optional<plugins::PluginKind> plugin_with_own_devices(const recipe::Recipe& recipe) {
  if (recipe.backend != "xla") return std::nullopt;
  const plugins::PluginKind kind = plugins::choose_plugin(recipe.xla.plugin).kind;
  return kind == plugins::PluginKind::cpu ? std::nullopt : std::optional(kind);
}

}  // namespace

hw::Slice slice_named(const std::string& name) {
  return hw::parse_target(name, {.host_rates = [] { return runtime::cpu::host_rates(); }});
}

hw::Slice slice_here(const recipe::Recipe& recipe, hw::HostRates rates) {
  const auto plugin = plugin_with_own_devices(recipe);
  if (plugin && !recipe.hardware.target.empty()) return slice_named(recipe.hardware.target);
  const std::string count = ":" + std::to_string(recipe::chips_of(recipe.layout));
  if (plugin) rates.memory = kUnknownMemory;
  hw::Slice slice = hw::parse_target("host" + count, {.host_rates = [&] { return rates; }});
  if (plugin) {
    slice.chip.name = plugins::info_of(*plugin).name;
    slice.name = slice.chip.name + count;
  }
  return slice;
}

bool are_devices_known(const recipe::Recipe& recipe) {
  return !plugin_with_own_devices(recipe) || !recipe.hardware.target.empty();
}

fit::Assumptions assumptions_for(const recipe::Recipe& recipe, hw::Slice slice, UsersCatalog& catalog,
                                 const collectives::Transport& transport) {
  const int64_t devices = slice.devices();
  fit::Assumptions assumptions{
      .slice = std::move(slice),
      .kernels = runtime::backend_named(recipe.backend).estimate_target(recipe, devices, transport),
      .limits = recipe::chip_limits(recipe.hardware, devices),
      .build = {}};
  assumptions.build = build_of(recipe, assumptions.slice);
  catalog.use([&](const catalog::Catalog& open) {
    assumptions.peaks =
        open.samples(fit::lane_name(assumptions.slice, recipe.backend), catalog::kPeakBytes, assumptions.build);
  });
  return assumptions;
}

}  // namespace megacpp::launch
