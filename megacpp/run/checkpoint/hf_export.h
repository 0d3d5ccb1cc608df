// SPDX-License-Identifier: Apache-2.0
// Writes a model as a Hugging Face folder: config.json and model.safetensors, or above a size several files with
// their index. A folder that was imported is written back to the byte. Written beside its place and renamed there: the
// folder is complete or absent. Nothing is overwritten.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "megacpp/run/checkpoint/hf_export_config.h"
#include "megacpp/run/checkpoint/hf_folder.h"

namespace megacpp::checkpoint {

inline constexpr int64_t kShardBytes = 5'000'000'000;

struct HfExportOptions {
  std::string cls;  // empty: the first that expresses the model
  StoredType type = ir::DType::f32;
  /// Its spelling of names, types of tensors, files and other fields of the config are kept; nullptr: none.
  const ImportedModel* like = nullptr;
  std::filesystem::path carried = {};  // tokenizer files of this folder come along; empty: none
  /// Of one file, unless a single tensor is larger. Without it the files are those of `like`, or have kShardBytes.
  std::optional<int64_t> shard_bytes = {};
};

struct HfExportSummary {
  std::string cls;
  size_t tensors = 0;
  int64_t bytes = 0;
  std::vector<std::string> files;  // in the order they were written
};

/// `ours`: all parameters of the model, whole, by name. E1202 for a model that no class expresses, E1203 for tensors
/// that do not belong to it, E3001 for a folder that exists or cannot be written.
HfExportSummary export_hf_folder(const std::filesystem::path& folder, const recipe::Model& model, const TensorMap& ours,
                                 const HfExportOptions& options = {});

}  // namespace megacpp::checkpoint
