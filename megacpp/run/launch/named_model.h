// SPDX-License-Identifier: Apache-2.0
// A model with its weights as a user names it, to `train --from` and to the commands that take a model along: a run
// directory (its newest checkpoint), one of its checkpoints, a checkpoint in no run, "latest", or a Hugging Face
// folder.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "megacpp/program/recipe/given_model.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/reader.h"

namespace megacpp::launch {

struct NamedModel {
  recipe::GivenModel given;
  std::shared_ptr<const checkpoint::Reader> checkpoint = {};  // shared with what loads it later; none: Hugging Face
  std::filesystem::path folder = {};  // that may hold tokenizer files: the run, a checkpoint in no run, Hugging Face
  std::filesystem::path recipe = {};  // of the run; empty: there is none
};

/// Weights are not read yet. Of a checkpoint in no run the manifest says what the model is. E1206 for what is none of
/// these, and for a checkpoint that does not say it; E1202 for a config that is not a whole model's; E1204 for a
/// damaged checkpoint.
NamedModel open_model(const std::string& named);

/// The recipe of the run, or one around the model that has a batch and a length of sequences and all else by default,
/// with what --set gives. E1205 for a key of the model that has another value there.
recipe::Recipe recipe_of(const NamedModel& model, std::span<const std::string> overrides);

/// The recipe in a file, or the same around the model of a Hugging Face folder or of a config.json by itself: weights
/// are not looked at. E1202 for a config that is not a whole model's.
recipe::Recipe load_recipe_or_model(const std::filesystem::path& named, std::span<const std::string> overrides);

}  // namespace megacpp::launch
