// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/model_source.h"

#include <CLI/CLI.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/path.h"
#include "megacpp/checkpoint/adapters.h"
#include "megacpp/checkpoint/reader.h"
#include "megacpp/checkpoint/store.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/model/model.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/recipe/validate.h"

namespace megacpp::cli {
namespace {

/// What runs are made of where no recipe says it.
recipe::Recipe recipe_around(const recipe::Model& model, const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides)
    MEGACPP_REQUIRE(!override.starts_with("model.") && !override.starts_with("lora."), E1001,
                    {.where = "--set " + override,
                     .got = "a key of the model",
                     .wanted = "other keys: the folder's config.json says what the model is",
                     .next = "leave it out"});
  recipe::Recipe recipe;
  recipe.name = model.name;
  recipe.train = {.batch = 8, .sequence = 256, .steps = 1};
  recipe::apply_overrides(recipe, overrides);
  recipe.model = model;
  recipe::validate(recipe);
  return recipe;
}

ModelSource from_folder(const SourceFlags& flags) {
  ModelSource source{.recipe = {}, .weights = {}, .imported = checkpoint::import_hf_folder(flags.source)};
  source.recipe = recipe_around(source.imported->description.model, flags.overrides);
  source.weights = std::move(source.imported->tensors);
  source.folder = flags.source;
  return source;
}

/// A checkpoint and the recipe of its run.
struct RunCheckpoint {
  std::filesystem::path recipe, checkpoint;
};

std::optional<RunCheckpoint> find_checkpoint(const std::filesystem::path& source) {
  constexpr const char* kRecipe = "recipe.yaml";
  if (base::exists(source / checkpoint::kManifestFile))
    return RunCheckpoint{base::canonical(source).parent_path().parent_path() / kRecipe, source};
  if (!base::exists(source / kRecipe)) return std::nullopt;
  const auto latest = checkpoint::Store(source / "checkpoints").latest();
  MEGACPP_REQUIRE(latest.has_value(), E1206,
                  {.where = source.string(),
                   .got = "no complete checkpoint",
                   .wanted = "a run that has saved one",
                   .next = "train it further: the last step is always saved"});
  return RunCheckpoint{source / kRecipe, *latest};
}

ModelSource from_checkpoint(const RunCheckpoint& found, const SourceFlags& flags) {
  ModelSource source{.recipe = recipe::load(found.recipe, flags.overrides), .weights = {}, .imported = std::nullopt};
  const checkpoint::Reader reader(found.checkpoint);
  for (const blocks::Parameter& parameter : model::parameters_of(source.recipe.model)) {
    const auto saved = reader.manifest().tensors.find(parameter.name);
    const bool is_there = saved != reader.manifest().tensors.end();
    MEGACPP_REQUIRE(is_there && saved->second.whole.shape == parameter.shape, E1205,
                    {.where = found.checkpoint.string() + " tensor " + parameter.name,
                     .got = is_there ? ir::to_string(saved->second.whole.shape) : "nothing",
                     .wanted = ir::to_string(parameter.shape),
                     .next = "leave out --set model.*, or give the run that the checkpoint is of"});
    source.weights[parameter.name] = checkpoint::whole_tensor(reader, parameter.name);
  }
  source.folder = found.recipe.parent_path();
  return source;
}

ModelSource from_recipe(const SourceFlags& flags) {
  RecipeFlags recipe_flags;
  recipe_flags.file = flags.source;
  recipe_flags.overrides = flags.overrides;
  ModelSource source{.recipe = recipe_flags.load(), .weights = {}, .imported = std::nullopt};
  for (const blocks::Parameter& parameter : model::parameters_of(source.recipe.model)) {
    checkpoint::FloatTensor& tensor = source.weights[parameter.name];
    tensor = {parameter.shape, std::vector<float>(static_cast<size_t>(ir::num_elements(parameter.shape)))};
    blocks::initialise(parameter, static_cast<uint64_t>(source.recipe.train.seed), 0, tensor.data);
  }
  return source;
}

ModelSource load_source(const SourceFlags& flags) {
  if (!base::is_folder(flags.source)) return from_recipe(flags);
  const auto found = find_checkpoint(flags.source);
  return found ? from_checkpoint(*found, flags) : from_folder(flags);
}

/// Adapters of a checkpoint or of a run's latest one, whether or not it has their base too.
void add_adapters(ModelSource& source, const std::string& adapters) {
  const auto found = find_checkpoint(adapters);
  const checkpoint::Reader reader(found ? found->checkpoint : std::filesystem::path(adapters));
  source.weights.merge(checkpoint::read_adapters(reader));
  checkpoint::merge_adapters(source.weights, checkpoint::alpha_of(reader));
}

}  // namespace

void declare_source(CLI::App& app, SourceFlags& flags) {
  app.add_option("source", flags.source,
                 "run directory, checkpoint, Hugging Face folder, or a recipe: its initial weights")
      ->required()
      ->type_name("PATH");
  app.add_option("--adapters", flags.adapters, "run directory or checkpoint whose LoRA adapters are merged in")
      ->type_name("DIR");
  declare_overrides(app, flags.overrides, "override a key, e.g. --set layout.data_parallel=2; may be repeated");
}

std::unique_ptr<const data::Tokenizer> load_tokenizer_for(const ModelSource& source, const std::string& given) {
  if (!given.empty()) return data::load_tokenizer(given);
  for (const char* file : {"tokenizer.json", "tokenizer.model"})
    if (!source.folder.empty() && base::exists(source.folder / file))
      return data::load_tokenizer((source.folder / file).string());
  return data::load_tokenizer("bytes");
}

ModelSource load_model_source(const SourceFlags& flags) {
  ModelSource source = load_source(flags);
  if (source.recipe.model.lora.is_on()) {
    checkpoint::merge_adapters(source.weights, source.recipe.model.lora.alpha);
    source.recipe.model.lora = {};
  }
  if (!flags.adapters.empty()) add_adapters(source, flags.adapters);
  return source;
}

}  // namespace megacpp::cli
