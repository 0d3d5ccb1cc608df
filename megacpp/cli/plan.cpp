// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/catalog_flags.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/hardware/fit/misfit.h"

namespace megacpp::cli {
namespace {

struct PlanFlags {
  std::shared_ptr<RecipeFlags> recipe;
  PlanWishes wishes;
  std::string html;
  bool json = false;
};

// A plan that does not fit is printed like any other; the error ends the command after that.
int run_plan(const PlanFlags& flags) {
  if (!flags.html.empty()) base::require_writable(flags.html);
  const PlanReport report = make_plan_report(flags.recipe->load(), flags.wishes);
  print_without_effect(report.without_effect);
  if (flags.json)
    print_json(plan_json(report));
  else
    write_output(plan_text(report));
  flush_output();
  if (!flags.html.empty()) {
    base::write_file_atomically(flags.html, plan_page(report));
    print_err("page written to {}\n", flags.html);
  }
  if (!report.estimate.fit.may_fit()) throw fit::misfit_error(report.estimate);
  return 0;
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .summary = "a recipe on hardware that need not be here: memory of every chip, time of a step, does it fit",
      .example =
          "megacpp plan recipes/nam56r.yaml --hardware v6e:16x16\n"
          "  megacpp plan recipes/nam52-1b.yaml --hardware h100:8 --html plan.html\n"
          "  megacpp plan ~/models/Qwen3-30B-A3B --hardware h100:64 --set train.sequence=4096 --set train.batch=64 "
          "--set layout.zero=3",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<PlanFlags>();
        flags->recipe = declare_recipe_flags(app, RecipeFile::or_model);
        app.add_option("--hardware", flags->wishes.hardware,
                       "what it is planned for: v6e:16x16, h100:8, host:4 (megacpp hw lists chips); without: the "
                       "recipe's hardware.target, or this machine")
            ->type_name("TARGET");
        declare_catalog_flags(app, flags->wishes.catalog, "correct by what earlier launches measured");
        declare_written_path(app, "--html", flags->html, "also write one page with pictures there")->type_name("FILE");
        app.add_flag("--json", flags->json, "print JSON, with every parameter by itself");
        return [flags] { return run_plan(*flags); };
      }};
}

}  // namespace megacpp::cli
