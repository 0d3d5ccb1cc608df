// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/model_source.h"

#include <CLI/CLI.hpp>

#include "megacpp/cli/path_flag.h"
#include "megacpp/cli/recipe_flags.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/checkpoint/adapters.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/launch/named_model.h"
#include "megacpp/run/launch/run_directory.h"

namespace megacpp::cli {
namespace {

checkpoint::TensorMap read_weights(const checkpoint::Reader& reader, const recipe::Model& model) {
  checkpoint::TensorMap weights;
  for (const blocks::Parameter& parameter : model::parameters_of(model)) {
    const auto saved = reader.manifest().tensors.find(parameter.name);
    const bool is_there = saved != reader.manifest().tensors.end();
    MEGACPP_REQUIRE(is_there && saved->second.whole.shape == parameter.shape, E1205,
                    {.where = reader.folder().string() + " tensor " + parameter.name,
                     .got = is_there ? ir::to_string(saved->second.whole.shape) : "nothing",
                     .wanted = ir::to_string(parameter.shape),
                     .next = "give a checkpoint of the whole model; adapters alone are given with --adapters"});
    weights[parameter.name] = checkpoint::whole_tensor(reader, parameter.name);
  }
  return weights;
}

ModelSource from_named(const SourceFlags& flags) {
  const launch::NamedModel named = launch::open_model(flags.source);
  ModelSource source{.recipe = launch::recipe_of(named, flags.overrides),
                     .weights = {},
                     .imported = std::nullopt,
                     .folder = named.folder};
  source.recipe.model.lora = named.given.model.lora;  // adapters come with the weights
  if (named.checkpoint) {
    source.weights = read_weights(*named.checkpoint, source.recipe.model);
  } else {
    source.imported = checkpoint::import_hf_folder(named.folder);
    source.weights = std::move(source.imported->tensors);
  }
  return source;
}

ModelSource from_recipe(const SourceFlags& flags) {
  ModelSource source{.recipe = recipe::load(flags.source, flags.overrides),
                     .weights = {},
                     .imported = std::nullopt,
                     .origin = train::WeightOrigin::drawn};
  for (const blocks::Parameter& parameter : model::parameters_of(source.recipe.model)) {
    checkpoint::FloatTensor& tensor = source.weights[parameter.name];
    tensor = {parameter.shape, std::vector<float>(static_cast<size_t>(ir::num_elements(parameter.shape)))};
    blocks::initialise(parameter, static_cast<uint64_t>(source.recipe.train.seed), 0, tensor.data);
  }
  return source;
}

/// Adapters of a checkpoint or of a run's latest one, whether or not it has their base too.
void add_adapters(ModelSource& source, const std::string& adapters) {
  const checkpoint::Reader reader(launch::find_checkpoint(adapters).checkpoint);
  source.weights.merge(checkpoint::read_adapters(reader));
  checkpoint::merge_adapters(source.weights, checkpoint::alpha_of(reader));
}

}  // namespace

void declare_source(CLI::App& app, SourceFlags& flags) {
  app.add_option("source", flags.source,
                 "run directory, checkpoint, latest, Hugging Face folder, or a recipe: its initial weights")
      ->required()
      ->type_name("PATH");
  declare_read_path(app, "--adapters", flags.adapters,
                    "run directory, checkpoint or latest, whose LoRA adapters are merged in")
      ->type_name("DIR");
  declare_overrides(app, flags.overrides, "override a key of the recipe, e.g. --set train.threads=2; may be repeated");
}

std::unique_ptr<const data::Tokenizer> load_tokenizer_for(const ModelSource& source, const std::string& given) {
  if (!given.empty()) return data::load_tokenizer(given);
  for (const char* file : {"tokenizer.json", "tokenizer.model"})
    if (!source.folder.empty() && base::exists(source.folder / file))
      return data::load_tokenizer((source.folder / file).string());
  return data::load_tokenizer("bytes");
}

KeysWithoutEffect report_without_effect(const ModelSource& source, train::ModelUse use) {
  KeysWithoutEffect keys = without_effect_in({.use = use, .weights = source.origin}, source.recipe);
  print_without_effect(keys);
  return keys;
}

ModelSource load_model_source(const SourceFlags& flags) {
  const bool is_named = flags.source == "latest" || base::is_folder(flags.source);
  ModelSource source = is_named ? from_named(flags) : from_recipe(flags);
  if (source.recipe.model.lora.is_on()) {
    checkpoint::merge_adapters(source.weights, source.recipe.model.lora.alpha);
    source.recipe.model.lora = {};
  }
  if (!flags.adapters.empty()) add_adapters(source, flags.adapters);
  return source;
}

}  // namespace megacpp::cli
