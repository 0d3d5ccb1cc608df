// SPDX-License-Identifier: Apache-2.0
// A model folder as published on Hugging Face: config.json and model.safetensors, or several safetensors files listed
// in model.safetensors.index.json. Everything is read into memory.
#pragma once

#include <filesystem>

#include "megacpp/checkpoint/hf_config.h"

namespace megacpp::checkpoint {

struct ImportedModel {
  HfModel description;
  TensorMap tensors;  // under our names
};

/// E1008 for unreadable files, E1201 to E1203 for unusable ones.
ImportedModel import_hf_folder(const std::filesystem::path& folder);

}  // namespace megacpp::checkpoint
