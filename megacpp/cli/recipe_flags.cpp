// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/recipe_flags.h"

#include "megacpp/base/error.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp::cli {

void declare_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help) {
  app.add_option("--set", overrides, help)->type_name("KEY=VALUE")->take_all()->allow_extra_args(false);
}

std::shared_ptr<RecipeFlags> declare_recipe_flags(CLI::App& app) {
  auto flags = std::make_shared<RecipeFlags>();
  app.add_option("recipe", flags->file, "recipe file (YAML)")->required()->type_name("FILE");
  declare_overrides(app, flags->overrides, "override a key, e.g. --set train.steps=20; may be repeated");
  return flags;
}

int threads_for(const recipe::Recipe& recipe) {
  return recipe.train.threads > 0 ? static_cast<int>(recipe.train.threads) : runtime::cpu::available_threads();
}

schedule::Target target_for(const recipe::Recipe& recipe, const plan::Plan& plan) {
  MEGACPP_REQUIRE(recipe.backend == "cpu", E1505,
                  {.where = "backend",
                   .got = recipe.backend,
                   .wanted = "cpu: plugins can be fetched and listed, but commands do not run on them yet",
                   .next = "set backend: cpu"});
  return runtime::cpu::cpu_target(runtime::cpu::threads_per_chip(threads_for(recipe), plan.parallel.mesh));
}

}  // namespace megacpp::cli
