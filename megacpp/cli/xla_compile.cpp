// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/xla_compile.h"

#include <chrono>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/planned.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/plugins/tpu_topology.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/oom_report.h"
#include "megacpp/run/launch/remember.h"
#ifdef MEGACPP_HAS_PJRT
#include "megacpp/machine/xla/pjrt/step_module.h"
#endif

namespace megacpp::cli {

namespace plugins = runtime::plugins;
namespace pjrt = runtime::pjrt;

namespace {

void require_devices(const hw::Slice& target, const plan::Plan& plan) {
  if (target.devices() == plan.chips) return;
  const int64_t others = plan.chips / plan.layout->data_parallel;  // degrees that stay
  const bool fits = target.devices() % others == 0;
  base::raise(base::Code::E1504,
              {.where = "--target " + target.name,
               .got = fmt::format("{} devices", target.devices()),
               .wanted = fmt::format("{}, the chips of the mesh {}", plan.chips, to_string(plan.parallel.mesh)),
               .next = fits ? fmt::format("set layout.data_parallel: {}", target.devices() / others)
                            : fmt::format("change the degrees of the layout to a product of {}", target.devices())});
}

}  // namespace

void declare_xla_flags(CLI::App& app, XlaFlags& flags) {
  app.add_option("--target", flags.target,
                 "with --backend xla: compile ahead of time for this slice, none needed here: v6e:16x16")
      ->type_name("TOPOLOGY");
  declare_number(app,
                 {.name = "--time-limit",
                  .range = schema::between(1, static_cast<double>(kLongestWait)),
                  .help = "seconds that may take before it is given up"},
                 flags.time_limit)
      ->default_str(std::to_string(flags.time_limit));
}

std::string deciding_command(const hw::Slice& slice, std::string_view backend) {
  const auto& compiles_ahead = runtime::backend_on(slice.chip.kind, backend).compiles_ahead;
  const bool is_ahead = compiles_ahead && compiles_ahead(slice.chip);
  return "megacpp compile with --backend xla " + (is_ahead ? "--target " + slice.name : "where " + slice.name + " is") +
         " decides";
}

bool is_compiled_by_xla(const recipe::Recipe& recipe) { return runtime::backend_named(recipe.backend).emits_stablehlo; }

void require_xla_for(const XlaFlags& flags, const recipe::Recipe& recipe) {
  MEGACPP_REQUIRE(flags.target.empty() || is_compiled_by_xla(recipe), E1007,
                  ({.where = "--target " + flags.target,
                    .got = "backend " + recipe.backend,
                    .wanted = "backend xla: only XLA compiles for machines that are not here",
                    .next = "add --backend xla"}));
}

XlaChoice choose_xla(const plan::PlannedRecipe& planned, const XlaFlags& flags) {
  const recipe::Recipe& recipe = planned.recipe();
  plugins::PluginChoice named = plugins::choose_plugin(recipe.xla.plugin);
  const bool is_default = recipe.xla.plugin == recipe::Xla{}.plugin;
  std::optional<hw::Slice> tpu;
  std::string generation;
  const bool wants_slice = !flags.target.empty() && (is_default || named.kind == plugins::PluginKind::tpu);
  if (wants_slice) {
    if (is_default) named = {plugins::PluginKind::tpu, {}};
    tpu = hw::parse_target(flags.target);
    generation = plugins::generation_of_topology(plugins::tpu_topology(*tpu).name);
    require_devices(*tpu, planned.plan());
  }
  plugins::ResolvedFlags xla_flags =
      plugins::resolve_flags(recipe.xla.flags, plugins::flag_target_here(named.kind, generation));
  return {.flags = flags,
          .kind = named.kind,
          .plugin = plugins::find_plugin(named.kind, named.named).file,
          .tpu = std::move(tpu),
          .xla_flags = std::move(xla_flags)};
}

void read_out_of_memory(XlaCompilation& result, const std::string& subject) {
  if (result.report.out_of_memory.empty()) return;
  result.out_of_memory = plugins::read_oom_message(
      result.report.out_of_memory, {.during = plugins::OomClass::compile, .platform = result.choice.kind});
  const std::string where = subject + (result.choice.tpu ? " on " + result.choice.tpu->name : "");
  result.failure.emplace(plugins::code_of(result.out_of_memory->cls),
                         plugins::problem_of(*result.out_of_memory, where));
}

std::string other_compiler(const XlaCompilation& compilation) {
  if (!compilation.choice.tpu) return {};
  const hw::Chip& chip = compilation.choice.tpu->chip;
  const std::string& platform = compilation.report.platform;
  if (chip.xla.compiler.empty() || platform.empty() || platform.find(chip.xla.compiler) != std::string::npos) return {};
  return fmt::format("of {} are of another compiler ({}): plans for it may be further off than they say", chip.name,
                     chip.xla.compiler);
}

void remember_compilation(catalog::Catalog& catalog, const fit::Estimate& estimate, const XlaCompilation& compilation) {
  if (compilation.out_of_memory) {
    const memory::OutOfMemory failure = plugins::out_of_memory(*compilation.out_of_memory, "compile");
    return launch::remember_failure(catalog, estimate, 0, launch::make_report(estimate, failure, {}));
  }
  launch::Measured measured{.phase = "compile", .plan = &estimate.worst_memory()};
  // Without its code, which plans count beside the peak.
  if (const auto& memory = compilation.report.memory; memory && memory->peak > 0) measured.bytes = memory->peak;
  launch::remember_measured(catalog, estimate, 0, measured);
}

compile::Compiled compile_our_placement(const plan::PlannedRecipe& planned, const compile::Options& options) {
  const plan::PlannedRecipe own = with_our_placement(planned);
  compile::Options own_options = options;
  if (own.recipe() != planned.recipe()) own_options.dump_dir.reset();
  return compile::compile_training(own.plan(), target_of(own), own_options);
}

#ifdef MEGACPP_HAS_PJRT

namespace {

/// With the padding of the slice's tiles; of those of v6e for a TPU that is not named.
int64_t planned_argument_bytes(const emit::Module& module, const XlaChoice& choice) {
  int64_t bytes = 0;
  if (choice.kind != plugins::PluginKind::tpu) {
    for (const emit::Port& port : module.arguments) bytes += port.local.bytes();
    return bytes;
  }
  const hw::Chip chip = choice.tpu ? choice.tpu->chip : hw::find_chip("v6e", {});
  for (const emit::Port& port : module.arguments)
    bytes += hw::argument_bytes(chip, ir::dtype_name(port.local.dtype), port.local.shape);
  return bytes;
}

emit::Module module_for(const plan::PlannedRecipe& planned, const compile::Compiled& ours, const XlaChoice& choice,
                        const compile::Options& options, double& seconds) {
  const recipe::Recipe& recipe = planned.recipe();
  const bool is_ours = recipe.xla.placement == recipe::XlaPlacement::megacpp;
  std::optional<compile::Compiled> whole;
  if (!is_ours) whole = compile::compile_training(planned.plan(), target_of(planned), options);
  const auto start = std::chrono::steady_clock::now();
  emit::Module module =
      pjrt::module_of(is_ours ? ours : *whole, {.placement = is_ours ? emit::Placement::megacpp : emit::Placement::xla,
                                                .plugin = choice.plugin,
                                                .has_loops = recipe::has_block_loops(recipe)});
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.dump_dir) base::write_file_atomically(*options.dump_dir / "stablehlo.mlir", module.text);
  return module;
}

pjrt::CompileReport compile_module(const XlaChoice& choice, const emit::Module& module, const ir::Mesh& mesh) {
  pjrt::CompileRequest request{.plugin = choice.plugin, .stablehlo = module.text, .mesh = mesh};
  if (choice.flags.target.empty()) {
    request.flags = plugins::hand_over(choice.xla_flags);
    return pjrt::compile_to_report(request);
  }
  request.topology = choice.flags.target;
  if (choice.tpu) {
    const plugins::TpuTopology topology = plugins::tpu_topology(*choice.tpu);
    request.topology = topology.name;
    for (const auto& [name, value] : topology.options) request.topology_options.push_back({name, value});
  }
  const auto prepare = [&choice] {
    plugins::set_ahead_of_time_environment(choice.kind);
    plugins::apply_to_environment(choice.xla_flags);
  };
  const auto say = [&choice](std::chrono::milliseconds elapsed) {
    print_err("XLA compiles for {}: {} s\n", choice.flags.target,
              std::chrono::duration_cast<std::chrono::seconds>(elapsed).count());
  };
  return pjrt::compile_in_child(
      request, {.prepare = prepare, .limit = std::chrono::seconds(choice.flags.time_limit), .waiting = {.say = say}});
}

}  // namespace

XlaCompilation compile_on_xla(const XlaChoice& choice, const plan::PlannedRecipe& planned,
                              const compile::Compiled& ours, const compile::Options& options) {
  const recipe::Recipe& recipe = planned.recipe();
  XlaCompilation result{.choice = choice, .report = {}, .collectives = {}, .out_of_memory = {}, .failure = {}};
  const emit::Module module = module_for(planned, ours, choice, options, result.emission_seconds);
  result.text_bytes = module.text.size();
  result.argument_bytes = planned_argument_bytes(module, choice);
  result.flops = ours.stages[0].flops;
  try {
    result.report = compile_module(choice, module, ours.mesh);
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) != base::ErrorClass::environment) throw;
    result.failure = error;
    return result;
  }
  read_out_of_memory(result, fit::subject_text(recipe));
  if (result.failure || !result.report.unread.empty()) return result;
  result.collectives = compare_collectives(
      result.report.collectives, compile::collective_report(ours, planned.plan(), plan::changes_to(planned.recipe())),
      recipe.train.micro_steps, ours.mesh);
  return result;
}

#else

XlaCompilation compile_on_xla(const XlaChoice& choice, const plan::PlannedRecipe& planned, const compile::Compiled&,
                              const compile::Options&) {
  target_of(planned);  // says that this build has no XLA lane
  return {.choice = choice, .report = {}, .collectives = {}, .out_of_memory = {}, .failure = {}};
}

#endif

}  // namespace megacpp::cli
