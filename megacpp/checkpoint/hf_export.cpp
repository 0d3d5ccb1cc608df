// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/hf_export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "megacpp/base/atomic_folder.h"
#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/checkpoint/tokenizer_files.h"

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

/// Where each shard ends, as indices into the tensors.
std::vector<size_t> shard_ends(const std::vector<EncodedTensor>& tensors, int64_t limit) {
  std::vector<size_t> ends;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto own = static_cast<int64_t>(tensors[i].bytes.size());
    if (bytes > 0 && bytes + own > limit) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += own;
  }
  ends.push_back(tensors.size());
  return ends;
}

void write_shard(const std::filesystem::path& path, std::span<const EncodedTensor> tensors) {
  std::vector<StoredTensor> stored;
  for (const EncodedTensor& tensor : tensors)
    stored.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape, .bytes = tensor.bytes});
  write_safetensors(path, stored, {{"format", "pt"}});
}

void write_tensors(const std::filesystem::path& folder, const std::vector<EncodedTensor>& tensors, int64_t limit,
                   HfExportSummary& summary) {
  const std::vector<size_t> ends = shard_ends(tensors, limit);
  base::Json::object_t places;
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string file =
        ends.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, ends.size());
    write_shard(folder / file, std::span(tensors).subspan(begin, ends[i] - begin));
    for (; begin < ends[i]; ++begin) places.emplace_back(tensors[begin].name, file);
    summary.files.push_back(file);
  }
  if (ends.size() == 1) return;
  const base::Json index{{"metadata", {{"total_size", summary.bytes}}}, {"weight_map", base::Json(std::move(places))}};
  summary.files.emplace_back("model.safetensors.index.json");
  base::write_file_atomically(folder / summary.files.back(), base::to_text(index, 2) + "\n");
}

}  // namespace

HfExportSummary export_hf_folder(const std::filesystem::path& folder, const recipe::Model& model, const TensorMap& ours,
                                 const HfExportOptions& options) {
  const ImportedModel* like = options.like;
  const ExportedConfig exported =
      export_hf_config(model, {.cls = options.cls,
                               .naming = like != nullptr ? like->description.naming : HfNaming::on_disk,
                               .type = options.type,
                               .carried = like != nullptr ? like->config : ""});
  const std::vector<EncodedTensor> tensors = encode(export_tensors(exported.described.names, ours), options);
  HfExportSummary summary{.cls = exported.described.cls, .tensors = tensors.size()};
  for (const EncodedTensor& tensor : tensors) summary.bytes += static_cast<int64_t>(tensor.bytes.size());
  base::AtomicFolder written(folder);
  base::write_file_atomically(written.path() / "config.json", exported.config);
  summary.files.emplace_back("config.json");
  write_tensors(written.path(), tensors, options.shard_bytes, summary);
  if (!options.carried.empty())
    for (std::string& file : copy_tokenizer_files(options.carried, written.path()))
      summary.files.push_back(std::move(file));
  written.commit();
  return summary;
}

}  // namespace megacpp::checkpoint
