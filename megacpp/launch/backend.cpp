// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/backend.h"

#include "megacpp/base/error.h"
#include "megacpp/recipe/chip_settings.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/runtime/pjrt/pjrt_backend.h"
#endif

namespace megacpp::launch {

namespace plugins = runtime::plugins;

namespace {

#ifdef MEGACPP_HAS_PJRT

emit::Placement placement_of(const recipe::Recipe& recipe) {
  return recipe.xla.placement == "xla" ? emit::Placement::xla : emit::Placement::megacpp;
}

// XLA can divide no call of cuDNN among chips: in a program over several of them it must be in the program of one.
schedule::Target xla_target(const recipe::Recipe& recipe, const ir::Mesh& mesh) {
  const emit::Placement placement = placement_of(recipe);
  const bool has_cudnn = recipe.xla.attention == "fused" &&
                         plugins::choose_plugin(recipe.xla.plugin).kind == plugins::PluginKind::cuda &&
                         (placement == emit::Placement::megacpp || mesh.chips() == 1);
  return runtime::pjrt::xla_target(placement, has_cudnn);
}

std::filesystem::path cache_of(const recipe::Recipe& recipe) {
  if (recipe.xla.cache == "off") return {};
  return recipe.xla.cache == "auto" ? plugins::program_folder() : std::filesystem::path(recipe.xla.cache);
}

// Flags are checked before the plugin is loaded: it would end the process at one it does not know.
std::unique_ptr<runtime::Executable> load_on_xla(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  const plugins::PluginChoice choice = plugins::choose_plugin(recipe.xla.plugin);
  const std::filesystem::path plugin = plugins::find_plugin(choice.kind, choice.named).file;
  return runtime::pjrt::load(compiled, {.placement = placement_of(recipe),
                                        .plugin = plugin,
                                        .flags = plugins::hand_over(xla_flags(recipe)),
                                        .cache = cache_of(recipe),
                                        .limits = recipe::chip_limits(recipe.hardware, compiled.mesh.chips()),
                                        .faults = faults_for(recipe)});
}

#else

[[noreturn]] void refuse_xla() {
  base::raise(base::Code::E1505, {.where = "backend",
                                  .got = "xla, in a build without the XLA lane",
                                  .wanted = "a build with the header of the PJRT C API",
                                  .next = "run: megacpp plugins fetch cpu, and build again"});
}

schedule::Target xla_target(const recipe::Recipe&, const ir::Mesh&) { refuse_xla(); }
std::unique_ptr<runtime::Executable> load_on_xla(const recipe::Recipe&, const compile::Compiled&) { refuse_xla(); }

#endif

}  // namespace

plugins::ResolvedFlags xla_flags(const recipe::Recipe& recipe) {
  return plugins::resolve_flags(recipe.xla.flags,
                                plugins::flag_target_here(plugins::choose_plugin(recipe.xla.plugin).kind));
}

int threads_for(const recipe::Recipe& recipe) {
  return recipe.train.threads > 0 ? static_cast<int>(recipe.train.threads) : runtime::cpu::available_threads();
}

runtime::Faults faults_for(const recipe::Recipe& recipe) {
  const auto class_of = [](recipe::FailAllocation::At at) {
    return at == recipe::FailAllocation::At::compile ? memory::OomClass::compile
           : at == recipe::FailAllocation::At::load  ? memory::OomClass::load
                                                     : memory::OomClass::runtime;
  };
  runtime::Faults faults;
  for (const recipe::FailAllocation& wish : recipe::fail_allocations(recipe.hardware))
    faults.push_back({.chip = wish.chip, .cls = class_of(wish.at), .step = wish.step});
  return faults;
}

schedule::Target target_for(const recipe::Recipe& recipe, const ir::Mesh& mesh) {
  if (recipe.backend == "xla") return xla_target(recipe, mesh);
  return runtime::cpu::cpu_target(runtime::cpu::threads_per_chip(threads_for(recipe), mesh.chips()));
}

std::unique_ptr<runtime::Executable> load_for(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                              const runtime::cpu::LoadOptions& options) {
  runtime::cpu::LoadOptions own = options;
  own.limits = recipe::chip_limits(recipe.hardware, compiled.mesh.chips());
  own.faults = faults_for(recipe);
  runtime::raise_faults(own.faults, memory::OomClass::compile, compiled, own.limits);
  return recipe.backend == "xla" ? load_on_xla(recipe, compiled) : runtime::cpu::load(compiled, own);
}

}  // namespace megacpp::launch
