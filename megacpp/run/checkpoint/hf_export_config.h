// SPDX-License-Identifier: Apache-2.0
// A model of ours as a Hugging Face class. What is written is read back and compared: a model that the class would
// compute otherwise is refused (E1202) with the setting that differs, never approximated. Settings that only training
// reads (losses of routers, initial time steps, document masks) may be lost.
#pragma once

#include <string>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_config.h"

namespace megacpp::checkpoint {

struct HfConfigOptions {
  std::string cls;        // empty: the first that expresses the model
  std::string preferred;  // tried before all others
  HfNaming naming = HfNaming::on_disk;
  StoredType type = ir::DType::f32;  // of the tensors, where nothing carried says it
  std::string carried = {};          // text of a config whose other fields are kept (ids of tokens, lengths)
};

struct ExportedConfig {
  std::string config;  // text
  HfModel described;   // names are those of our own model
};

ExportedConfig export_hf_config(const recipe::Model& model, const HfConfigOptions& options = {});

}  // namespace megacpp::checkpoint
