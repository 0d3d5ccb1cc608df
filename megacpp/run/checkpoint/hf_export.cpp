// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_export.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/atomic_folder.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/checkpoint/tokenizer_files.h"

namespace megacpp::checkpoint {
namespace {

/// Tensors as they are written, in the order of their names.
struct EncodedTensor {
  std::string name;
  StoredType type;
  ir::Shape shape;
  std::vector<std::byte> bytes;
};

std::vector<EncodedTensor> encode(TensorMap theirs, const HfExportOptions& options) {
  std::vector<EncodedTensor> encoded;
  for (auto& [name, tensor] : theirs) {
    StoredType type = options.type;
    if (options.like != nullptr)
      if (const auto known = options.like->types.find(name); known != options.like->types.end()) type = known->second;
    encoded.push_back({name, type, tensor.shape, to_bytes(tensor.data, type)});
    std::vector<float>().swap(tensor.data);
  }
  return encoded;
}

struct Shard {
  std::string file;
  std::vector<const EncodedTensor*> tensors = {};
};

/// The files of an imported folder; nothing where one of the tensors was in none.
std::optional<std::vector<Shard>> shards_like(const ImportedModel& like, const std::vector<EncodedTensor>& tensors) {
  std::map<std::string, Shard> by_file;
  for (const EncodedTensor& tensor : tensors) {
    const auto known = like.files.find(tensor.name);
    if (known == like.files.end()) return std::nullopt;
    by_file.try_emplace(known->second, Shard{.file = known->second}).first->second.tensors.push_back(&tensor);
  }
  std::vector<Shard> shards;
  for (auto& [file, shard] : by_file) shards.push_back(std::move(shard));
  return shards;
}

std::vector<Shard> shards_of_size(const std::vector<EncodedTensor>& tensors, int64_t limit) {
  std::vector<Shard> shards;
  int64_t bytes = 0;
  for (const EncodedTensor& tensor : tensors) {
    const auto own = static_cast<int64_t>(tensor.bytes.size());
    if (shards.empty() || (bytes > 0 && bytes + own > limit)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().tensors.push_back(&tensor);
    bytes += own;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].file =
        shards.size() == 1 ? kHfTensorFile : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

void write_shard(const std::filesystem::path& folder, const Shard& shard) {
  std::vector<StoredTensor> stored;
  for (const EncodedTensor* tensor : shard.tensors)
    stored.push_back({.name = tensor->name, .type = tensor->type, .shape = tensor->shape, .bytes = tensor->bytes});
  write_safetensors(folder / shard.file, stored, {{"format", "pt"}});
}

std::string index_text(const std::vector<Shard>& shards, int64_t bytes) {
  std::map<std::string, std::string> files;
  for (const Shard& shard : shards)
    for (const EncodedTensor* tensor : shard.tensors) files.emplace(tensor->name, shard.file);
  const base::Json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}};
  return base::to_text(index, 2) + "\n";
}

void write_tensors(const std::filesystem::path& folder, const std::vector<EncodedTensor>& tensors,
                   const HfExportOptions& options, HfExportSummary& summary) {
  std::optional<std::vector<Shard>> known;
  if (options.like != nullptr && !options.shard_bytes) known = shards_like(*options.like, tensors);
  const std::vector<Shard> shards =
      known ? std::move(*known) : shards_of_size(tensors, options.shard_bytes.value_or(kShardBytes));
  for (const Shard& shard : shards) {
    write_shard(folder, shard);
    summary.files.push_back(shard.file);
  }
  const std::string index = known ? options.like->index : shards.size() > 1 ? index_text(shards, summary.bytes) : "";
  if (index.empty()) return;
  summary.files.emplace_back(kHfIndexFile);
  base::write_file_atomically(folder / kHfIndexFile, index);
}

}  // namespace

HfExportSummary export_hf_folder(const std::filesystem::path& folder, const recipe::Model& model, const TensorMap& ours,
                                 const HfExportOptions& options) {
  const ImportedModel* like = options.like;
  const ExportedConfig exported =
      export_hf_config(model, {.cls = options.cls,
                               .preferred = like != nullptr ? like->description.cls : "",
                               .naming = like != nullptr ? like->description.naming : HfNaming::on_disk,
                               .type = options.type,
                               .carried = like != nullptr ? like->config : ""});
  const std::vector<EncodedTensor> tensors = encode(export_tensors(exported.described.names, ours), options);
  HfExportSummary summary{.cls = exported.described.cls, .tensors = tensors.size()};
  for (const EncodedTensor& tensor : tensors) summary.bytes += static_cast<int64_t>(tensor.bytes.size());
  base::AtomicFolder written(folder);
  base::write_file_atomically(written.path() / "config.json", exported.config);
  summary.files.emplace_back("config.json");
  write_tensors(written.path(), tensors, options, summary);
  if (!options.carried.empty())
    for (std::string& file : copy_tokenizer_files(options.carried, written.path()))
      summary.files.push_back(std::move(file));
  written.commit();
  return summary;
}

}  // namespace megacpp::checkpoint
