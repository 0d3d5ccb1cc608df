// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/named_model.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/checkpoint/hf_folder.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::launch {
namespace {

constexpr const char* kConfigFile = "config.json";
// How much is computed at once where no recipe says it.
constexpr const char* kDefaultTrain = "train: {batch: 8, sequence: 256, steps: 1}\n";

bool is_hf_folder(const std::filesystem::path& path) {
  return base::exists(path / kConfigFile) && !base::exists(path / checkpoint::kManifestFile) && !is_run(path);
}

recipe::GivenModel whole_model(const checkpoint::HfModel& described, const std::string& config) {
  MEGACPP_REQUIRE(!described.lone_block, E1202,
                  {.where = config,
                   .got = described.cls + ", a block without embedding and head",
                   .wanted = "a whole model",
                   .next = "give the folder of a model that is named in docs/interoperability.md"});
  return {.model = described.model, .source = config};
}

NamedModel open_hf_folder(const std::filesystem::path& folder) {
  const std::string config = (folder / kConfigFile).string();
  return {.given = whole_model(checkpoint::describe_hf_folder(folder), config), .folder = folder};
}

recipe::GivenModel model_of_manifest(const checkpoint::Reader& reader) {
  const std::filesystem::path& folder = reader.folder();
  const std::string manifest = (folder / checkpoint::kManifestFile).string();
  const std::filesystem::path run = folder.parent_path().parent_path();
  MEGACPP_REQUIRE(reader.manifest().model.contains("model.pattern"), E1206,
                  {.where = folder.string(),
                   .got = "a checkpoint in no run whose manifest does not say what the model is",
                   .wanted = fmt::format("recipe.yaml in {}, or keys of the model in {}", run.string(), manifest),
                   .next = "name the run that saved it, or put its recipe.yaml there"});
  std::vector<recipe::Setting> settings;
  for (const auto& [key, value] : reader.manifest().model) settings.push_back({key, value});
  recipe::Model model = recipe::parse_model(settings, manifest);
  model.name = folder.filename().string();
  return {.model = std::move(model), .source = manifest};
}

NamedModel open_checkpoint(const FoundCheckpoint& found) {
  const auto reader = std::make_shared<const checkpoint::Reader>(found.checkpoint);
  if (found.run.empty()) return {.given = model_of_manifest(*reader), .checkpoint = reader, .folder = found.checkpoint};
  const std::filesystem::path file = found.run / "recipe.yaml";
  return {.given = {.model = recipe::load(file).model, .source = file.string()},
          .checkpoint = reader,
          .folder = found.run,
          .recipe = file};
}

}  // namespace

NamedModel open_model(const std::string& named) {
  if (named != "latest" && is_hf_folder(named)) return open_hf_folder(named);
  return open_checkpoint(find_checkpoint(named));
}

recipe::Recipe recipe_of(const NamedModel& model, std::span<const std::string> overrides) {
  if (!model.recipe.empty()) return recipe::load_around(model.given, model.recipe, overrides);
  return recipe::parse_around(model.given, kDefaultTrain, "defaults", overrides);
}

recipe::Recipe load_recipe_or_model(const std::filesystem::path& named, std::span<const std::string> overrides) {
  const std::filesystem::path config = is_hf_folder(named) ? named / kConfigFile : named;
  if (config.extension() != ".json") return recipe::load(named, overrides);
  NamedModel model{.given = whole_model(checkpoint::describe_hf_config(config), config.string())};
  // Called after its folder, as recipes are after their file.
  model.given.model.name = base::absolute(config).lexically_normal().parent_path().filename().string();
  return recipe_of(model, overrides);
}

}  // namespace megacpp::launch
