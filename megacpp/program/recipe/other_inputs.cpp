// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/other_inputs.h"

#include "megacpp/core/base/error.h"

namespace megacpp::recipe {
namespace {

constexpr const char* kWantedRecipe = "a recipe: YAML with model, train and other keys (megacpp keys)";
constexpr const char* kWriteRecipe =
    "to train the model: megacpp train RECIPE --from FOLDER, with a recipe that says how; generate, eval and export "
    "take "
    "the folder as it is";

bool has_key(const std::string& text, const std::string& key) {
  const std::string quoted = "\"" + key + "\"";
  for (size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
    const size_t behind = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (behind != std::string::npos && text[behind] == ':') return true;
  }
  return false;
}

bool is_configuration(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' &&
         (has_key(text, "architectures") || has_key(text, "model_type"));
}

}  // namespace

void refuse_model_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_model =
      std::filesystem::is_directory(path, ignored) && std::filesystem::exists(path / "config.json", ignored);
  MEGACPP_REQUIRE(!is_model, E1008,
                  {.where = path.string(),
                   .got = "a folder with a config.json: a Hugging Face model",
                   .wanted = kWantedRecipe,
                   .next = kWriteRecipe});
}

void refuse_model_file(const std::filesystem::path& path, const std::string& text) {
  MEGACPP_REQUIRE(!is_configuration(text), E1004,
                  {.where = path.string(),
                   .got = "the configuration of a Hugging Face model",
                   .wanted = kWantedRecipe,
                   .next = kWriteRecipe});
  MEGACPP_REQUIRE(path.extension() != ".safetensors", E1004,
                  {.where = path.string(),
                   .got = "a file of tensors (safetensors)",
                   .wanted = kWantedRecipe,
                   .next = "if it is a golden file: megacpp parity " + path.string()});
}

}  // namespace megacpp::recipe
