// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/compile.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/pass_flags.h"
#include "megacpp/cli/planned.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/cli/xla_report.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/memory/fields.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {
namespace {

struct CompileFlags {
  std::shared_ptr<RecipeFlags> recipe;
  XlaFlags xla;
  compile::Options options;
  bool json = false;
  launch::CatalogChoice catalog;
};

void print_compiled_json(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  Json passes = Json::array(), fallbacks = Json::array();
  const memory::MemoryPlan& memory = compiled.largest().memory;
  for (const compile::PassTime& pass : compiled.passes)
    passes.push_back(Json{{"pass", pass.name},
                          {"seconds", pass.seconds},
                          {"verify_seconds", pass.verify_seconds},
                          {"nodes", static_cast<int64_t>(pass.nodes)}});
  for (const schedule::Fallback& fallback : compiled.fallbacks)
    fallbacks.push_back(Json{{"op", fallback.op}, {"scope", fallback.scope}, {"reason", fallback.reason}});
  print_json({{"name", recipe.name},
              {"pattern", recipe.model.pattern},
              {"mesh", to_string(compiled.mesh)},
              {"chips", compiled.mesh.chips()},
              {"peak_bytes", memory.total_bytes},
              {"state_bytes", memory.state_bytes},
              {"padding_bytes", memory.padding_bytes},
              {"flops_per_micro_step", compiled.flops_per_step() / static_cast<double>(recipe.train.micro_steps)},
              {"memory", base::record_json(memory.items)},
              {"passes", passes},
              {"fallbacks", fallbacks}});
}

void print_as_text(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  print_out("{}  pattern {}  depth {}\n", recipe.name, recipe.model.pattern, recipe.model.depth);
  print_out("mesh {}  chips {}  peak {} per chip\n\n", to_string(compiled.mesh), compiled.mesh.chips(),
            memory::human_bytes(compiled.largest().memory.total_bytes));
  print_out("{:<20} {:>9} {:>10} {:>10}\n", "pass", "nodes", "ms", "verify ms");
  for (const compile::PassTime& pass : compiled.passes)
    print_out("{:<20} {:>9} {:>10.2f} {:>10.2f}\n", pass.name, pass.nodes, pass.seconds * 1e3,
              pass.verify_seconds * 1e3);
  print_out("\n{:.2f} GFLOP per micro-step, {}\n\n",
            compiled.flops_per_step() / static_cast<double>(recipe.train.micro_steps) / 1e9,
            base::counted(std::ssize(compiled.fallbacks), "fallback"));
  write_output(memory::to_text(compiled.largest().memory));
}

void compile_here(const CompileFlags& flags, const plan::PlannedRecipe& given) {
  const plan::PlannedRecipe planned = settled(given, std::nullopt, flags.catalog);
  const recipe::Recipe& recipe = planned.recipe();
  const compile::Compiled compiled = compile::compile_training(planned.plan(), target_of(planned), flags.options);
  if (flags.json)
    print_compiled_json(recipe, compiled);
  else
    print_as_text(recipe, compiled);
}

// A compiler of hardware that is not here is the best judge of plans for it: what it says is kept.
void tell_catalog(const launch::CatalogChoice& choice, const recipe::Recipe& recipe,
                  const XlaCompilation& compilation) {
  const bool is_sound = !compilation.failure && compilation.report.odd_memory.empty();
  const bool is_judged = is_sound || compilation.out_of_memory;
  if (!compilation.choice.tpu || !is_judged) return;
  launch::UsersCatalog catalog(choice, catalog::Access::write, print_line);
  if (!catalog.why_not().empty()) return;
  const fit::Estimate estimate =
      fit::make_estimate(recipe, launch::assumptions_for(recipe, *compilation.choice.tpu, catalog));
  catalog.use([&](catalog::Catalog& open) { remember_compilation(open, estimate, compilation); });
  if (catalog.why_not().empty()) print_err("catalog    told\n");
}

// What is known is printed even where the compiler failed; its error ends the command after that.
void compile_by_xla(const CompileFlags& flags, const plan::PlannedRecipe& given) {
  const XlaChoice choice = choose_xla(given, flags.xla);
  const plan::PlannedRecipe planned = settled(given, choice.tpu, flags.catalog);
  const recipe::Recipe& recipe = planned.recipe();
  const plan::Plan& plan = planned.plan();
  const XlaCompilation compilation =
      compile_on_xla(choice, planned, compile_our_placement(planned, flags.options), flags.options);
  if (flags.json) {
    print_json({{"name", recipe.name},
                {"pattern", recipe.model.pattern},
                {"mesh", to_string(plan.parallel.mesh)},
                {"chips", plan.chips},
                {"placement", base::text_of(recipe.xla.placement)},
                {"has_loops", recipe::has_block_loops(recipe)},
                {"micro_steps", recipe.train.micro_steps},
                {"xla", xla_json(compilation)}});
  } else {
    print_out("{}  pattern {}  depth {}\n", recipe.name, recipe.model.pattern, recipe.model.depth);
    print_out("mesh       {}  chips {}, collectives placed by {}\n", to_string(plan.parallel.mesh), plan.chips,
              base::text_of(recipe.xla.placement));
    print_out("blocks     {}\n", recipe::block_loops_text(recipe));
    print_xla_report(compilation);
    if (!compilation.failure) print_xla_collectives(compilation);
  }
  flush_output();
  tell_catalog(flags.catalog, recipe, compilation);
  if (compilation.failure) throw base::Error(*compilation.failure);
}

int run_compile(const CompileFlags& flags) {
  const plan::PlannedRecipe planned(flags.recipe->load());
  const recipe::Recipe& recipe = planned.recipe();
  require_xla_for(flags.xla, recipe);
  runtime::backend_that_runs(recipe);
  print_without_effect(without_effect(recipe, flags.xla.target.empty() ? recipe::Use::run : recipe::Use::plan));
  (is_compiled_by_xla(recipe) ? compile_by_xla : compile_here)(flags, planned);
  if (flags.options.dump_dir) print_err("passes written to {}\n", flags.options.dump_dir->string());
  return 0;
}

}  // namespace

Command compile_command() {
  return {.name = "compile",
          .summary = "compile a recipe, print passes and the memory plan, or what XLA makes of it",
          .example =
              "megacpp compile recipes/nam56r-tiny.yaml --dump-dir /tmp/passes --without fuse\n"
              "  megacpp compile recipes/nam56r.yaml --backend xla --target v6e:16x16",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<CompileFlags>();
            flags->recipe = declare_recipe_flags(app, RecipeFile::or_model);
            declare_xla_flags(app, flags->xla);
            app.add_option_function<std::string>(
                   "--dump-dir", [flags](const std::string& folder) { flags->options.dump_dir = folder; },
                   "write what every pass left there: 01-model.ir, ..., and for XLA stablehlo.mlir")
                ->type_name("DIR");
            declare_without(app, flags->options.without);
            app.footer(app.get_footer() + "\n" + passes_help());
            app.add_flag("--json", flags->json, "print JSON");
            declare_catalog_flags(app, flags->catalog, "tell it what the compiler of a --target says");
            return [flags] { return run_compile(*flags); };
          }};
}

}  // namespace megacpp::cli
