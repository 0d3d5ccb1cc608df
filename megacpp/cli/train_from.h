// SPDX-License-Identifier: Apache-2.0
// What `train --from` starts with: the model and the weights of a Hugging Face folder, of a run's newest checkpoint or
// of any checkpoint, and none of their optimizer state. The recipe says everything else.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/given_model.h"

namespace megacpp::cli {

struct WeightSource {
  recipe::GivenModel model;
  std::filesystem::path folder;  // that may hold tokenizer files
  /// Writes all weights of the local chips, but LoRA adapters that the source does not have; called once for every try
  /// to load the run.
  std::function<void(const compile::Compiled&, runtime::Executable&)> load;
  /// The files that the weights are in, each with a digest: processes must start with the same. Reads all of a Hugging
  /// Face folder.
  std::function<std::vector<collectives::Field>()> digests;
};

/// `named` and errors as of launch::open_model(). A folder's tensors are read when they are loaded; which there are,
/// and whether they are those of its config, is known now.
WeightSource open_weight_source(const std::string& named);

}  // namespace megacpp::cli
