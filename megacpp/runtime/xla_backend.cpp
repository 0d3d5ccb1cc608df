// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/xla_backend.h"

#include <filesystem>

#include "megacpp/base/error.h"
#include "megacpp/runtime/plugins/plugin_places.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/runtime/pjrt/pjrt_backend.h"
#include "megacpp/runtime/pjrt/plugin.h"
#endif

namespace megacpp::runtime {
namespace {

#ifdef MEGACPP_HAS_PJRT

emit::Placement placement_of(const recipe::Recipe& recipe) {
  return recipe.xla.placement == "xla" ? emit::Placement::xla : emit::Placement::megacpp;
}

std::filesystem::path plugin_of(const recipe::Recipe& recipe) {
  const plugins::PluginChoice choice = plugins::choose_plugin(recipe.xla.plugin);
  return plugins::find_plugin(choice.kind, choice.named).file;
}

// XLA can divide no call of cuDNN among chips: in a program over several of them it must be in the program of one.
schedule::Target target(const recipe::Recipe& recipe, const ir::Mesh& mesh) {
  const emit::Placement placement = placement_of(recipe);
  const bool has_cudnn = recipe.xla.attention == "fused" &&
                         plugins::choose_plugin(recipe.xla.plugin).kind == plugins::PluginKind::cuda &&
                         (placement == emit::Placement::megacpp || mesh.chips() == 1);
  return pjrt::xla_target(placement, has_cudnn);
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

}  // namespace

plugins::ResolvedFlags xla_flags(const recipe::Recipe& recipe) {
  return plugins::resolve_flags(recipe.xla.flags,
                                plugins::flag_target_here(plugins::choose_plugin(recipe.xla.plugin).kind));
}

Backend xla_backend() {
  return {.name = "xla",
          .doc = "XLA through a PJRT plugin: one program a step, on the devices of the plugin",
          .target = target,
          .load = load,
          .runs_node_by_node = false,
          .runs = runs,
          .identity = identity};
}

}  // namespace megacpp::runtime
