// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/hf_export.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/output_path.h"
#include "megacpp/base/path.h"
#include "megacpp/checkpoint/tokenizer_files.h"

namespace megacpp::checkpoint {
namespace {

/// A folder beside its place, that takes the place when it is complete and is removed when it never is.
class FolderBeside {
 public:
  explicit FolderBeside(std::filesystem::path place) : place_(std::move(place)) {
    MEGACPP_REQUIRE(!place_.filename().empty() && !base::exists(place_), E3001,
                    {.where = place_.string(),
                     .got = place_.filename().empty() ? "a path that ends in /" : "something that exists",
                     .wanted = "the name of a new folder",
                     .next = "give another name, or remove what is there"});
    beside_ = place_;
    beside_ += fmt::format(".partial{}", ::getpid());
    base::make_folder(beside_);
  }
  ~FolderBeside() {
    std::error_code ignored;
    if (!beside_.empty()) std::filesystem::remove_all(beside_, ignored);
  }
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;

  const std::filesystem::path& path() const { return beside_; }
  void take_place() {
    if (::rename(beside_.c_str(), place_.c_str()) != 0) base::fail_writing(place_, "cannot rename into place", errno);
    beside_.clear();
  }

 private:
  std::filesystem::path place_;
  std::filesystem::path beside_;  // empty once it took its place
};

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
  FolderBeside beside(folder);
  base::write_file_atomically(beside.path() / "config.json", exported.config);
  summary.files.emplace_back("config.json");
  write_tensors(beside.path(), tensors, options.shard_bytes, summary);
  if (!options.carried.empty())
    for (std::string& file : copy_tokenizer_files(options.carried, beside.path()))
      summary.files.push_back(std::move(file));
  beside.take_place();
  return summary;
}

}  // namespace megacpp::checkpoint
