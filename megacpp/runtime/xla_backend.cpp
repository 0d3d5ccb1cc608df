// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/xla_backend.h"

#include <filesystem>

#include "megacpp/base/error.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/plugins/plugin_places.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/runtime/pjrt/pjrt_backend.h"
#include "megacpp/runtime/pjrt/plugin.h"
#endif

namespace megacpp::runtime {
namespace {

plugins::PluginKind plugin_kind(const recipe::Recipe& recipe) { return plugins::choose_plugin(recipe.xla.plugin).kind; }

// XLA can divide no call of cuDNN among chips: in a program over several of them it must be in the program of one.
bool has_fused_attention(const recipe::Recipe& recipe, int64_t chips) {
  return plugin_kind(recipe) == plugins::PluginKind::cuda && (recipe.xla.placement == "megacpp" || chips == 1);
}

#ifdef MEGACPP_HAS_PJRT

emit::Placement placement_of(const recipe::Recipe& recipe) {
  return recipe.xla.placement == "xla" ? emit::Placement::xla : emit::Placement::megacpp;
}

std::filesystem::path plugin_of(const recipe::Recipe& recipe) {
  const plugins::PluginChoice choice = plugins::choose_plugin(recipe.xla.plugin);
  return plugins::find_plugin(choice.kind, choice.named).file;
}

schedule::Target target(const recipe::Recipe& recipe, const ir::Mesh& mesh) {
  return pjrt::xla_target(placement_of(recipe),
                          recipe.xla.attention == "fused" && has_fused_attention(recipe, mesh.chips()));
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
                     .flags = plugins::hand_over(xla_flags(recipe)),
                     .cache = cache_of(recipe)},
                    options);
}

std::string identity(const recipe::Recipe& recipe) { return pjrt::Plugin::load(plugin_of(recipe)).identity(); }

#else

[[noreturn]] void refuse() {
  base::raise(base::Code::E1505, {.where = "backend",
                                  .got = "xla, in a build without the XLA lane",
                                  .wanted = "a build with the header of the PJRT C API",
                                  .next = "run: megacpp plugins fetch cpu, and build again"});
}

schedule::Target target(const recipe::Recipe&, const ir::Mesh&) { refuse(); }
std::unique_ptr<Executable> load(const recipe::Recipe&, const compile::Compiled&, const LoadOptions&) { refuse(); }
std::string identity(const recipe::Recipe&) { refuse(); }

#endif

base::Decision runs(const recipe::Recipe& recipe) {
  return recipe.layout.pipeline_parallel == 1
             ? base::Decision::yes()
             : base::Decision::no("a pipeline: every device runs the same program (layout.pipeline_parallel)");
}

// Policies differ in what ZeRO level they begin with and in which collectives travel together.
bool policy_only_combines(const recipe::Recipe& recipe) {
  return recipe.layout.policy == "megatron" || recipe.layout.zero != recipe::Layout::kPolicyDecides;
}

bool has_no_fused_attention(const recipe::Recipe& recipe) {
  return !has_fused_attention(recipe, recipe::chips_of(recipe.layout));
}

bool is_this_machine(const recipe::Recipe& recipe) { return plugin_kind(recipe) == plugins::PluginKind::cpu; }

// layout.max_replicated_bytes is none of them even where XLA places collectives: the estimate of a launch is held
// against it.
std::vector<recipe::IgnoredKey> ignores() {
  const std::string combines = "XLA combines collectives itself";
  return {{.key = "layout.prefetch", .decides = "XLA schedules its collectives"},
          {.key = "layout.bucket_bytes", .decides = combines},
          {.key = "layout.policy", .decides = combines, .applies = policy_only_combines},
          {.key = "train.threads", .decides = "the plugin starts its own threads"},
          {.key = "train.wait_limit", .decides = "the plugin waits for its devices itself"},
          {.key = "xla.attention",
           .decides = "only the cuda plugin has a fused call, in the program of one chip",
           .applies = has_no_fused_attention},
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
          .doc = "XLA through a PJRT plugin: one program a step, on the devices of the plugin",
          .target = target,
          .estimate_target =
              [](const recipe::Recipe& recipe, int64_t chips, const collectives::Transport& transport) {
                return cpu::cpu_target(cpu::threads_per_chip(threads_for(recipe), chips), transport);
              },
          .runs_estimates = false,
          .load = load,
          .runs_node_by_node = false,
          .runs = runs,
          .ignores = ignores(),
          .identity = identity};
}

}  // namespace megacpp::runtime
