// SPDX-License-Identifier: Apache-2.0
// The flags every command on a recipe shares: the file, --set overrides and --backend. Commands that run nothing also
// take a model as Hugging Face publishes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace CLI {
class App;
}

namespace megacpp::cli {

/// What the positional may be: a recipe, which some commands can do without, or for others a model as well.
enum class RecipeFile : uint8_t { required, optional, or_model };

struct RecipeFlags {
  RecipeFile kind = RecipeFile::required;
  std::string file;
  std::vector<std::string> overrides;

  recipe::Recipe load() const;
};

/// `--set KEY=VALUE`, one value a flag, as often as wanted.
void declare_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& help);

/// `--backend NAME`, one more override; call after declare_overrides with the same list.
void declare_backend(CLI::App& app, std::vector<std::string>& overrides);

/// Declared on `app`; shared with the command's body, which reads it after parsing.
std::shared_ptr<RecipeFlags> declare_recipe_flags(CLI::App& app, RecipeFile file = RecipeFile::required);

}  // namespace megacpp::cli
