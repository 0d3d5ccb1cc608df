// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/xla_backend.h"

#include <filesystem>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/machine_memory.h"
#include "megacpp/collectives/mpi/mpi_launch.h"
#include "megacpp/recipe/block_loops.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/cpu/host_rates.h"
#include "megacpp/runtime/device_hardware.h"
#include "megacpp/runtime/plugins/nvidia_devices.h"
#include "megacpp/runtime/plugins/plugin_identity.h"
#include "megacpp/runtime/plugins/plugin_places.h"
#include "megacpp/runtime/processor.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/runtime/pjrt/pjrt_backend.h"
#include "megacpp/runtime/pjrt/process_part.h"
#endif

namespace megacpp::runtime {
namespace {

plugins::PluginKind plugin_kind(const recipe::Recipe& recipe) { return plugins::choose_plugin(recipe.xla.plugin).kind; }

// XLA can divide no call of cuDNN among chips: in a program over several of them it must be in the program of one.
bool is_program_of_one_chip(const recipe::Recipe& recipe, int64_t chips) {
  return recipe.xla.placement == "megacpp" || chips == 1;
}

bool has_fused_attention(const recipe::Recipe& recipe, int64_t chips) {
  return plugin_kind(recipe) == plugins::PluginKind::cuda && is_program_of_one_chip(recipe, chips);
}

#ifdef MEGACPP_HAS_PJRT

emit::Placement placement_of(const recipe::Recipe& recipe) {
  return recipe.xla.placement == "xla" ? emit::Placement::xla : emit::Placement::megacpp;
}

std::filesystem::path plugin_of(const recipe::Recipe& recipe) {
  const plugins::PluginChoice choice = plugins::choose_plugin(recipe.xla.plugin);
  return plugins::find_plugin(choice.kind, choice.named).file;
}

schedule::Target target(const recipe::Recipe& recipe, const TargetMesh& mesh) {
  const bool wants_call = recipe.xla.attention == "fused" && plugin_kind(recipe) == plugins::PluginKind::cuda;
  return pjrt::xla_target(placement_of(recipe),
                          {.are_wanted = wants_call, .can_be = is_program_of_one_chip(recipe, mesh.chips)});
}

std::filesystem::path cache_of(const recipe::Recipe& recipe) {
  if (recipe.xla.cache == "off") return {};
  return recipe.xla.cache == "auto" ? plugins::program_folder() : std::filesystem::path(recipe.xla.cache);
}

// Flags are checked before the plugin is loaded: it would end the process at one it does not know.
std::unique_ptr<Executable> load(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                 const LoadOptions& options) {
  return pjrt::load(compiled,
                    {.placement = placement_of(recipe),
                     .plugin = plugin_of(recipe),
                     .has_loops = recipe::has_block_loops(recipe),
                     .flags = plugins::hand_over(xla_flags(recipe)),
                     .cache = cache_of(recipe)},
                    options);
}

std::vector<std::string> visible_gpus(const recipe::Recipe& recipe) {
  return plugin_kind(recipe) == plugins::PluginKind::cuda ? pjrt::gpus_by_driver() : std::vector<std::string>();
}

void require_devices(const recipe::Recipe& recipe) { plugin_of(recipe); }

base::Decision usable(const recipe::Recipe& recipe) {
  try {
    plugin_of(recipe);
    return base::Decision::yes();
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1501) throw;
    return base::Decision::no(error.problem().got + "; " + error.problem().next);
  }
}

#else

constexpr const char* kWayOut = "run: megacpp plugins fetch cpu, and build again";

[[noreturn]] void refuse() {
  base::raise(base::Code::E1505, {.where = "backend",
                                  .got = "xla, in a build without the XLA lane",
                                  .wanted = "a build with the header of the PJRT C API",
                                  .next = kWayOut});
}

schedule::Target target(const recipe::Recipe&, const TargetMesh&) { refuse(); }
std::unique_ptr<Executable> load(const recipe::Recipe&, const compile::Compiled&, const LoadOptions&) { refuse(); }
std::vector<std::string> visible_gpus(const recipe::Recipe&) { return {}; }
void require_devices(const recipe::Recipe&) { refuse(); }
base::Decision usable(const recipe::Recipe&) {
  return base::Decision::no(std::string("a build without the header of the PJRT C API; ") + kWayOut);
}

#endif

std::optional<recipe::Unsupported> cannot_run(const recipe::Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  if (layout.pipeline_parallel == 1)
    return recipe::unsupported_offload(recipe, "XLA places state by itself, on the devices");
  return recipe::Unsupported{.setting = "layout.pipeline_parallel: " + std::to_string(layout.pipeline_parallel),
                             .reason = "one program on all devices, no pipeline stages",
                             .instead = layout.virtual_stages > 1
                                            ? "layout.pipeline_parallel: 1 and layout.virtual_stages: 1"
                                            : "layout.pipeline_parallel: 1"};
}

// Policies differ in what ZeRO level they begin with and in which collectives travel together.
bool policy_only_combines(const recipe::Recipe& recipe) {
  return recipe.layout.policy == "megatron" || recipe.layout.zero != recipe::Layout::kPolicyDecides;
}

bool has_no_fused_attention(const recipe::Recipe& recipe) {
  return !has_fused_attention(recipe, recipe::chips_of(recipe.layout));
}

bool is_one_process(const recipe::Recipe&) { return !collectives::mpi_launch().has_value(); }

bool is_this_machine(const recipe::Recipe& recipe) { return plugin_kind(recipe) == plugins::PluginKind::cpu; }

std::optional<int64_t> free_bytes(const recipe::Recipe& recipe) {
  return is_this_machine(recipe) ? std::optional(base::available_memory_bytes()) : std::nullopt;
}

std::string device_name(const recipe::Recipe& recipe) {
  return plugin_kind(recipe) == plugins::PluginKind::cuda ? plugins::nvidia_device_name() : "";
}

// Nothing is known of the devices but how many there are: this machine's rates stand in where plans must compare
// something, and no time is predicted from them.
FoundHardware unknown_devices(const recipe::Recipe& recipe, const Machine& machine) {
  const int64_t chips = recipe::chips_of(recipe.layout);
  hw::Slice slice = cpu::host_slice(chips, {.local_chips = chips, .rates = machine.rates});
  slice.chip.name = plugins::info_of(plugin_kind(recipe)).name;
  slice.chip.nominal_bytes = slice.chip.usable_bytes = 0;
  slice.name = slice.chip.name + ":" + std::to_string(chips);
  return {.slice = std::move(slice), .has_rates = false};
}

// On devices of its own hardware.target, or else the chip that they call themselves.
FoundHardware find_hardware(const recipe::Recipe& recipe, const Machine& machine) {
  if (is_this_machine(recipe)) return {.slice = cpu::host_slice(recipe::chips_of(recipe.layout), machine)};
  if (!recipe.hardware.target.empty())
    return {.slice = hw::parse_target(recipe.hardware.target, {.host_rates = [] { return cpu::host_rates(); }})};
  if (machine.device_name.empty()) return unknown_devices(recipe, machine);
  return hardware_of_devices({.name = machine.device_name, .count = recipe::chips_of(recipe.layout), .unknown = [&] {
                                return unknown_devices(recipe, machine);
                              }});
}

std::string identity(const recipe::Recipe& recipe) {
  const plugins::PluginChoice choice = plugins::choose_plugin(recipe.xla.plugin);
  return plugins::plugin_identity(choice.kind, choice.named);
}

std::vector<Platform> platforms() {
  std::vector<Platform> all;
  for (const plugins::PluginKindInfo& info : plugins::plugin_kinds())
    all.push_back({.name = info.name, .identity = [kind = info.kind] { return plugins::plugin_identity(kind); }});
  return all;
}

// What is resolved, not what is written: auto is one program with what it stands for, and off with on where nothing
// repeats.
std::vector<std::string> features(const recipe::Recipe& recipe) {
  const bool is_unrolled = recipe::has_repeated_blocks(recipe.model) && !recipe::has_block_loops(recipe);
  std::vector<std::string> words = {"placement=" + recipe.xla.placement};
  if (recipe.xla.attention != recipe::Xla{}.attention) words.push_back("attention=" + recipe.xla.attention);
  if (is_unrolled) words.emplace_back("loops=off");
  for (const std::string& flag : recipe.xla.flags) words.push_back("flag=" + flag);
  return words;
}

RunSettings settings(const recipe::Recipe& recipe) {
  return {.text = "plugin " + recipe.xla.plugin + ", collectives placed by " + recipe.xla.placement + ", " +
                  recipe::block_loops_text(recipe),
          .lines = plugins::to_text(xla_flags(recipe), plugins::kFlagLabel)};
}

// layout.max_replicated_bytes is none of them even where XLA places collectives: the estimate of a launch is held
// against it.
std::vector<recipe::IgnoredKey> ignores() {
  const std::string combines = "XLA combines collectives itself";
  return {{.key = "layout.prefetch", .decides = "XLA schedules its collectives"},
          {.key = "layout.bucket_bytes", .decides = combines},
          {.key = "layout.collectives", .decides = "the plugin adds up what its devices hold"},
          {.key = "layout.policy", .decides = combines, .applies = policy_only_combines},
          {.key = "train.threads", .decides = "the plugin starts its own threads"},
          {.key = "train.wait_limit",
           .decides = "one process runs all devices, and the plugin waits for them itself",
           .applies = is_one_process},
          {.key = "xla.attention",
           .decides = "only the cuda plugin has a fused call, in the program of one chip",
           .applies = has_no_fused_attention},
          {.key = "xla.loops",
           .decides = "no block of the model repeats",
           .applies = [](const recipe::Recipe& recipe) { return !recipe::has_repeated_blocks(recipe.model); }},
          {.key = "hardware.target",
           .decides = "the cpu plugin runs on this machine; plan and fit read it",
           .applies = is_this_machine,
           .plans_read_it = true}};
}

}  // namespace

plugins::ResolvedFlags xla_flags(const recipe::Recipe& recipe) {
  return plugins::resolve_flags(recipe.xla.flags, plugins::flag_target_here(plugin_kind(recipe)));
}

Backend xla_backend() {
  return {.name = "xla",
          .runs_on = {hw::ChipKind::host, hw::ChipKind::gpu, hw::ChipKind::tpu},
          .cannot_run = cannot_run,
          .ignores = ignores(),
          .placement = [](const recipe::Recipe& recipe) { return recipe.xla.placement; },
          .runs_node_by_node = false,
          .emits_stablehlo = true,
          .joins_processes = [](const recipe::Recipe& recipe) { return plugins::joins_processes(plugin_kind(recipe)); },
          .target = target,
          .estimates_with = "cpu",
          .load = load,
          .usable = usable,
          .require_devices = require_devices,
          .threads = [](const recipe::Recipe&) { return available_threads(); },  // a plugin takes all there are
          .free_bytes = free_bytes,
          .host_rates = cpu::host_rates_probe(),  // estimates are made for our own kernels
          .device_name = device_name,
          .visible_gpus = visible_gpus,
          .find_hardware = find_hardware,
          .identity = identity,
          .platforms = platforms(),
          .features = features,
          .settings = settings,
          .settings_json =
              [](const recipe::Recipe& recipe) {
                return base::Json{{"xla_flags", plugins::to_json(xla_flags(recipe))}};
              }};
}

}  // namespace megacpp::runtime
