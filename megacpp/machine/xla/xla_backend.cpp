// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/xla_backend.h"

#include <filesystem>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/machine/collectives/mpi/mpi_launch.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/cpu/host_rates.h"
#include "megacpp/machine/plugins/nvidia_devices.h"
#include "megacpp/machine/plugins/plugin_identity.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/machine/runtime/device_hardware.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/machine/xla/reserve.h"
#include "megacpp/machine/xla/tpu_rule.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/chip_settings.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/machine/xla/pjrt/process_part.h"
#endif

namespace megacpp::runtime {
namespace {

plugins::PluginKind plugin_kind(const recipe::RunRequest& request) {
  return plugins::choose_plugin(request.xla.plugin).kind;
}

// XLA can divide no call of cuDNN among chips: in a program over several of them it must be in the program of one.
bool is_program_of_one_chip(const recipe::RunRequest& request, int64_t chips) {
  return request.xla.placement == recipe::XlaPlacement::megacpp || chips == 1;
}

bool has_fused_attention(const recipe::RunRequest& request, int64_t chips) {
  return plugin_kind(request) == plugins::PluginKind::cuda && is_program_of_one_chip(request, chips);
}

#ifdef MEGACPP_HAS_PJRT

emit::Placement placement_of(const recipe::RunRequest& request) {
  return request.xla.placement == recipe::XlaPlacement::xla ? emit::Placement::xla : emit::Placement::megacpp;
}

std::filesystem::path plugin_of(const recipe::RunRequest& request) {
  const plugins::PluginChoice choice = plugins::choose_plugin(request.xla.plugin);
  return plugins::find_plugin(choice.kind, choice.named).file;
}

schedule::Target target(const recipe::RunRequest& request, const TargetMesh& mesh) {
  const bool wants_call =
      request.xla.attention == recipe::XlaAttention::fused && plugin_kind(request) == plugins::PluginKind::cuda;
  return pjrt::xla_target(placement_of(request),
                          {.are_wanted = wants_call, .can_be = is_program_of_one_chip(request, mesh.chips)});
}

std::filesystem::path cache_of(const recipe::RunRequest& request) {
  using In = recipe::ProgramCacheFolder::In;
  const recipe::ProgramCacheFolder& cache = request.xla.cache;
  if (cache.in == In::nowhere) return {};
  return cache.in == In::users_cache ? plugins::program_folder() : std::filesystem::path(cache.folder);
}

// Flags are checked before the plugin is loaded: it would end the process at one it does not know.
std::unique_ptr<Executable> load(const recipe::RunRequest& request, const compile::Compiled& compiled,
                                 const LoadOptions& options) {
  return pjrt::load(compiled,
                    {.placement = placement_of(request),
                     .plugin = plugin_of(request),
                     .has_loops = request.has_block_loops,
                     .flags = plugins::hand_over(xla_flags(request)),
                     .cache = cache_of(request)},
                    options);
}

std::vector<std::string> visible_gpus(const recipe::RunRequest& request) {
  return plugin_kind(request) == plugins::PluginKind::cuda ? pjrt::gpus_by_driver() : std::vector<std::string>();
}

void require_devices(const recipe::RunRequest& request) { plugin_of(request); }

base::Decision usable(const recipe::RunRequest& request) {
  try {
    plugin_of(request);
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

schedule::Target target(const recipe::RunRequest&, const TargetMesh&) { refuse(); }
std::unique_ptr<Executable> load(const recipe::RunRequest&, const compile::Compiled&, const LoadOptions&) { refuse(); }
std::vector<std::string> visible_gpus(const recipe::RunRequest&) { return {}; }
void require_devices(const recipe::RunRequest&) { refuse(); }
base::Decision usable(const recipe::RunRequest&) {
  return base::Decision::no(std::string("a build without the header of the PJRT C API; ") + kWayOut);
}

#endif

std::optional<fit::XlaForms> xla_forms(const recipe::RunRequest& request, const hw::Slice& slice) {
  const bool is_gpu = slice.chip.kind == hw::ChipKind::gpu;
  const bool wants_call = is_gpu && request.xla.attention == recipe::XlaAttention::fused;
  // Of several GPUs nothing was measured, and where weights are gathered again a barrier is between. What TPUs need
  // goes by rules of its own.
  return fit::XlaForms{.has_calls = wants_call && is_program_of_one_chip(request, slice.devices()),
                       .has_loops = request.xla.placement == recipe::XlaPlacement::megacpp,
                       .fuses_across_passes = is_gpu && !request.has_block_loops && slice.devices() == 1};
}

// On GPUs and TPUs a step in loops and an unrolled one reserve and take so different amounts that neither says anything
// of the other. On TPUs loops are what every recipe gets unless it or a plan says otherwise: their lane names none.
fit::LaneLoops loops_on(const recipe::RunRequest& request, const hw::Chip& chip) {
  if (chip.kind == hw::ChipKind::host) return fit::LaneLoops::any;
  if (chip.kind == hw::ChipKind::gpu) return request.has_block_loops ? fit::LaneLoops::on : fit::LaneLoops::off;
  return request.has_block_loops || !request.has_repeated_blocks ? fit::LaneLoops::any : fit::LaneLoops::off;
}

bool plan_may_unroll(const recipe::Recipe& recipe, const hw::Chip& chip) {
  return chip.kind == hw::ChipKind::tpu && recipe.xla.loops == recipe::XlaLoops::automatic &&
         recipe::has_repeated_blocks(recipe.model) && xla::has_tpu_rule(recipe, chip);
}

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
  return recipe.layout.policy == recipe::Policy::megatron || !recipe.layout.zero.is_open();
}

bool has_no_fused_attention(const recipe::Recipe& recipe) {
  return !has_fused_attention(recipe::run_request(recipe), recipe::chips_of(recipe.layout));
}

bool is_one_process(const recipe::Recipe&) { return !collectives::mpi_launch().has_value(); }

bool is_this_machine(const recipe::RunRequest& request) { return plugin_kind(request) == plugins::PluginKind::cpu; }

std::optional<int64_t> free_bytes(const recipe::RunRequest& request) {
  return is_this_machine(request) ? std::optional(base::available_memory_bytes()) : std::nullopt;
}

std::string device_name(const recipe::RunRequest& request) {
  return plugin_kind(request) == plugins::PluginKind::cuda ? plugins::nvidia_device_name() : "";
}

// Nothing is known of the devices but how many there are: this machine's rates stand in where plans must compare
// something, and no time is predicted from them.
FoundHardware unknown_devices(const recipe::RunRequest& request, const Machine& machine) {
  const int64_t chips = request.chips;
  hw::Slice slice = cpu::host_slice(chips, {.local_chips = chips, .rates = machine.rates});
  slice.chip.name = plugins::info_of(plugin_kind(request)).name;
  slice.chip.nominal_bytes = slice.chip.usable_bytes = 0;
  slice.name = slice.chip.name + ":" + std::to_string(chips);
  return {.slice = std::move(slice), .has_rates = false};
}

// On devices of its own hardware.target, or else the chip that they call themselves.
FoundHardware find_hardware(const recipe::RunRequest& request, const Machine& machine) {
  if (is_this_machine(request)) return {.slice = cpu::host_slice(request.chips, machine)};
  if (!request.hardware.target.empty())
    return {.slice = hw::parse_target(request.hardware.target, {.host_rates = [] { return cpu::host_rates(); }})};
  if (machine.device_name.empty()) return unknown_devices(request, machine);
  return hardware_of_devices({.name = machine.device_name, .count = request.chips, .unknown = [&] {
                                return unknown_devices(request, machine);
                              }});
}

std::string identity(const recipe::RunRequest& request) {
  const plugins::PluginChoice choice = plugins::choose_plugin(request.xla.plugin);
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
std::vector<std::string> features(const recipe::RunRequest& request) {
  const bool is_unrolled = request.has_repeated_blocks && !request.has_block_loops;
  std::vector<std::string> words = {"placement=" + std::string(base::text_of(request.xla.placement))};
  if (request.xla.attention != recipe::Xla{}.attention)
    words.push_back("attention=" + std::string(base::text_of(request.xla.attention)));
  if (is_unrolled) words.emplace_back("loops=off");
  for (const std::string& flag : request.xla.flags) words.push_back("flag=" + flag);
  return words;
}

RunSettings settings(const recipe::RunRequest& request) {
  return {.text = "plugin " + request.xla.plugin + ", collectives placed by " +
                  std::string(base::text_of(request.xla.placement)) + ", " + request.blocks_text,
          .lines = plugins::to_text(xla_flags(request), plugins::kFlagLabel)};
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
           .applies = [](const recipe::Recipe& recipe) { return is_this_machine(recipe::run_request(recipe)); },
           .plans_read_it = true}};
}

}  // namespace

plugins::ResolvedFlags xla_flags(const recipe::RunRequest& request) {
  return plugins::resolve_flags(request.xla.flags, plugins::flag_target_here(plugin_kind(request)));
}

Backend xla_backend() {
  return {.name = "xla",
          .runs_on = {hw::ChipKind::host, hw::ChipKind::gpu, hw::ChipKind::tpu},
          .cannot_run = cannot_run,
          .ignores = ignores(),
          .placement = [](const recipe::RunRequest& request) { return request.xla.placement; },
          .runs_node_by_node = false,
          .emits_stablehlo = true,
          .joins_processes =
              [](const recipe::RunRequest& request) { return plugins::joins_processes(plugin_kind(request)); },
          .target = target,
          .estimates_with = "cpu",
          .load = load,
          .reserve = xla::reserve,
          .pool_share = xla::pool_share,
          .settled_on = xla::settled_on,
          .xla_forms = xla_forms,
          .loops_on = loops_on,
          .plan_may_unroll = plan_may_unroll,
          .compiles_ahead = [](const hw::Chip& chip) { return chip.kind == hw::ChipKind::tpu; },
          .usable = usable,
          .require_devices = require_devices,
          .threads = [](const recipe::RunRequest&) { return available_threads(); },  // a plugin takes all there are
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
              [](const recipe::RunRequest& request) {
                return base::Json{{"xla_flags", plugins::to_json(xla_flags(request))}};
              }};
}

}  // namespace megacpp::runtime
