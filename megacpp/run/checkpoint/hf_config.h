// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model class and config to our model and the names of its tensors; hf_class_list.inc has the classes.
// An option that would change the numbers and that we do not have is refused by name (E1202), never passed over.
#pragma once

#include <string>

#include "megacpp/core/base/json.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_names.h"
#include "megacpp/run/checkpoint/name_map.h"

namespace megacpp::checkpoint {

struct HfModel {
  std::string cls;
  recipe::Model model;
  NameMap names;
  HfNaming naming = HfNaming::in_memory;  // of `names`
  bool lone_block = false;                // one mixer without embedding, norms and head; vocab is 0
};

HfModel import_hf_config(const std::string& cls, const base::Json& config, HfNaming naming = HfNaming::in_memory);

/// The model class that a config.json names in `architectures`, or else the one of its `model_type`. E1202 for one that
/// is not known, and where the two do not belong together.
std::string hf_class_of(const base::Json& config);

}  // namespace megacpp::checkpoint
