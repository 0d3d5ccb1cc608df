// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/recipe_flags.h"

#include <CLI/CLI.hpp>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/named_model.h"

namespace megacpp::cli {

recipe::Recipe RecipeFlags::load() const {
  return kind == RecipeFile::or_model ? launch::load_recipe_or_model(file, overrides) : recipe::load(file, overrides);
}

void declare_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help) {
  app.add_option("--set", overrides, help)->type_name("KEY=VALUE")->take_all()->allow_extra_args(false);
}

void declare_backend(CLI::App& app, std::vector<std::string>& overrides) {
  // Declared after --set, whose values are taken first: this one is the last word.
  app.add_option_function<std::string>(
         "--backend", [&overrides](const std::string& name) { overrides.push_back("backend=" + name); },
         "what runs it, cpu, xla or cuda: short for --set backend=...")
      ->type_name("NAME");
}

std::shared_ptr<RecipeFlags> declare_recipe_flags(CLI::App& app, RecipeFile file) {
  auto flags = std::make_shared<RecipeFlags>();
  flags->kind = file;
  const char* const help =
      file == RecipeFile::or_model ? "recipe (YAML), Hugging Face folder, or a config.json" : "recipe file (YAML)";
  CLI::Option* const positional = app.add_option("recipe", flags->file, help)->type_name("FILE");
  if (file != RecipeFile::optional) positional->required();
  declare_overrides(app, flags->overrides, "override a key, e.g. --set train.steps=20; may be repeated");
  declare_backend(app, flags->overrides);
  return flags;
}

}  // namespace megacpp::cli
