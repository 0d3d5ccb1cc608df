// SPDX-License-Identifier: Apache-2.0
// One record per Hugging Face model class: the fields of its config and the names of its tensors, both for import and
// for export.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_codec.h"
#include "megacpp/run/checkpoint/hf_names.h"

namespace megacpp::checkpoint {

struct HfClass {
  std::string_view name;        // LlamaForCausalLM
  std::string_view model_type;  // llama; empty: no model of its own, and so not exported
  /// Reads the config into a model, or writes one whose letters give all their settings.
  void (*fields)(HfCodec& config, recipe::Model& model);
  NameMap (*names)(const recipe::Model& model, HfNaming naming);
  bool is_lone_block = false;
};

/// In the order in which an export tries them.
std::span<const HfClass> hf_classes();
/// "LlamaForCausalLM, MistralForCausalLM, .."
std::string hf_class_names();

}  // namespace megacpp::checkpoint
