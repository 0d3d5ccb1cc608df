// SPDX-License-Identifier: Apache-2.0
// A model folder as published on Hugging Face: config.json and model.safetensors, or several safetensors files listed
// in model.safetensors.index.json. Everything is read into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "megacpp/run/checkpoint/hf_config.h"

namespace megacpp::checkpoint {

/// Files of a folder: its tensors where one file has them all, and which file has which where several do.
inline constexpr const char* kHfTensorFile = "model.safetensors";
inline constexpr const char* kHfIndexFile = "model.safetensors.index.json";

struct ImportedModel {
  HfModel description;
  TensorMap tensors;                              // under our names
  std::string config;                             // text of config.json as published
  std::map<std::string, StoredType> types = {};   // of their tensors, under their names
  std::map<std::string, std::string> files = {};  // that hold them
  std::string index = {};                         // text of model.safetensors.index.json; empty: there is none
};

/// E1008 for unreadable files, E1201 to E1203 for unusable ones.
ImportedModel import_hf_folder(const std::filesystem::path& folder);

/// The file that holds each tensor, from the text of an index. E1201 for one that has none, or leads out of its folder.
std::map<std::string, std::string> parse_hf_index(std::string_view text, const std::string& where);

/// The hash of each file that import_hf_folder() would read, by its name; of all their bytes. E1008, E1201 as there.
std::map<std::string, uint64_t> digest_hf_folder(const std::filesystem::path& folder);

/// The model and names of a folder, from its config and the headers of its files, whose weights are not read: E1201 to
/// E1203 before anything as large as the config says is made.
HfModel describe_hf_folder(const std::filesystem::path& folder);

/// The model that a config.json describes by itself, without weights. E1008, E1202.
HfModel describe_hf_config(const std::filesystem::path& file);

}  // namespace megacpp::checkpoint
