// SPDX-License-Identifier: Apache-2.0
// Where a command takes a model and its weights from: what launch::open_model() knows by name, or a recipe with its
// initial weights.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/cli/without_effect.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_folder.h"
#include "megacpp/run/data/tokenizer.h"
#include "megacpp/run/train/unread_keys.h"

namespace CLI {
class App;
}

namespace megacpp::cli {

struct ModelSource {
  recipe::Recipe recipe;                              // with what --set gives; see launch::recipe_of()
  checkpoint::TensorMap weights;                      // all parameters, whole, by name; adapters are merged
  std::optional<checkpoint::ImportedModel> imported;  // of a Hugging Face folder, its tensors moved to `weights`
  std::filesystem::path folder = {};                  // that may hold a tokenizer; empty: none
  train::WeightOrigin origin = train::WeightOrigin::given;
};

struct SourceFlags {
  std::string source;
  std::string adapters;  // a run or checkpoint with LoRA adapters of the source's model; empty: none
  std::vector<std::string> overrides;
};

void declare_source(CLI::App& app, SourceFlags& flags);

/// `given`, or the one in the source's folder, or bytes.
std::unique_ptr<const data::Tokenizer> load_tokenizer_for(const ModelSource& source, const std::string& given);

/// Keys of --set that the command does not read, said on stderr.
KeysWithoutEffect report_without_effect(const ModelSource& source, train::ModelUse use);

/// LoRA adapters, its own and those of --adapters, are merged into the model, which has none afterwards.
/// Errors of launch::open_model() and of recipes; E1205 for a checkpoint that is not the model's.
ModelSource load_model_source(const SourceFlags& flags);

}  // namespace megacpp::cli
