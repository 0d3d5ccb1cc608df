// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_folder.h"

#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/path.h"

namespace megacpp::checkpoint {
namespace {

base::Json read_json(const std::filesystem::path& path, base::Code code) {
  return base::parse_json(base::read_file(path), code, path.string());
}

/// What a folder holds, under their names.
struct Stored {
  TensorMap tensors;
  std::map<std::string, StoredType> types;
  std::map<std::string, std::string> files;
  std::string index;
};

void add_file(const std::filesystem::path& path, Stored& stored) {
  const SafetensorsFile file(path);
  for (const StoredTensor& tensor : file.tensors()) {
    const bool is_new = stored.types.emplace(tensor.name, tensor.type).second;
    stored.files[tensor.name] = path.filename().string();
    MEGACPP_REQUIRE(is_new, E1201,
                    {.where = path.string() + " tensor " + tensor.name,
                     .got = "a tensor that another file of the folder holds too",
                     .wanted = "each tensor in one file",
                     .next = "get the folder again"});
  }
  stored.tensors.merge(read_tensors(file));
}

constexpr const char* kConfigFile = "config.json";

// The text of the file that names the file of each tensor; nothing where one file has all tensors.
std::optional<std::string> read_index_text(const std::filesystem::path& folder) {
  if (!base::exists(folder / kHfIndexFile)) return std::nullopt;
  return base::read_file(folder / kHfIndexFile);
}

std::map<std::string, std::string> index_of(const std::filesystem::path& folder,
                                            const std::optional<std::string>& text) {
  if (!text) return {};
  return parse_hf_index(*text, (folder / kHfIndexFile).string());
}

std::set<std::string> files_of(const std::map<std::string, std::string>& index) {
  if (index.empty()) return {kHfTensorFile};
  std::set<std::string> files;
  for (const auto& [tensor, file] : index) files.insert(file);
  return files;
}

std::set<std::string> files_of(const std::filesystem::path& folder) {
  return files_of(index_of(folder, read_index_text(folder)));
}

Stored read_folder(const std::filesystem::path& folder) {
  const std::optional<std::string> text = read_index_text(folder);
  const std::map<std::string, std::string> index = index_of(folder, text);
  Stored stored;
  stored.index = text.value_or("");
  for (const std::string& file : files_of(index)) add_file(folder / file, stored);
  for (const auto& [tensor, file] : index)
    MEGACPP_REQUIRE(stored.tensors.contains(tensor), E1203,
                    {.where = "tensor " + tensor,
                     .got = "nothing in " + (folder / file).string(),
                     .wanted = "the tensor that the index places there",
                     .next = "get the folder again"});
  return stored;
}

std::map<std::string, ir::Shape> read_shapes(const std::filesystem::path& folder) {
  std::map<std::string, ir::Shape> shapes;
  for (const std::string& name : files_of(folder)) {
    const SafetensorsFile file(folder / name);
    for (const StoredTensor& tensor : file.tensors()) shapes.emplace(tensor.name, tensor.shape);
  }
  return shapes;
}

template <typename Tensor>
HfNaming naming_of_all(const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (naming_of(name) == HfNaming::on_disk) return HfNaming::on_disk;
  }
  return HfNaming::in_memory;
}

}  // namespace

std::map<std::string, std::string> parse_hf_index(std::string_view text, const std::string& where) {
  const base::Json json = base::parse_json(text, base::Code::E1201, where);
  const base::Json* weights = base::find_member(json, "weight_map");
  std::map<std::string, std::string> index;
  bool sound = weights != nullptr && weights->is_object() && !weights->empty();
  if (sound) {
    for (const auto& [tensor, entry] : weights->items()) {
      const std::string* file = base::as_text(entry);
      sound = sound && file != nullptr && !file->empty() && std::filesystem::path(*file).filename() == *file;
      if (sound) index[tensor] = *file;
    }
  }
  MEGACPP_REQUIRE(sound, E1201,
                  {.where = where,
                   .got = "no usable weight_map",
                   .wanted = "tensor names with the file in this folder that holds each",
                   .next = "get the index file again"});
  return index;
}

std::map<std::string, uint64_t> digest_hf_folder(const std::filesystem::path& folder) {
  std::set<std::string> files = files_of(folder);
  files.insert(kConfigFile);
  if (base::exists(folder / kHfIndexFile)) files.insert(kHfIndexFile);
  std::map<std::string, uint64_t> digests;
  for (const std::string& name : files) {
    const base::MappedFile file(folder / name);
    digests[name] = file.read_unchanged([&] { return base::hash_of(file.bytes()); });
  }
  return digests;
}

ImportedModel import_hf_folder(const std::filesystem::path& folder) {
  ImportedModel imported{.config = base::read_file(folder / kConfigFile)};
  const base::Json config = base::parse_json(imported.config, base::Code::E1202, (folder / kConfigFile).string());
  Stored theirs = read_folder(folder);
  imported.description = import_hf_config(hf_class_of(config), config, naming_of_all(theirs.tensors));
  imported.tensors = import_tensors(imported.description.names, theirs.tensors);
  imported.types = std::move(theirs.types);
  imported.files = std::move(theirs.files);
  imported.index = std::move(theirs.index);
  return imported;
}

HfModel describe_hf_folder(const std::filesystem::path& folder) {
  const base::Json config = read_json(folder / kConfigFile, base::Code::E1202);
  const std::string cls = hf_class_of(config);
  const std::map<std::string, ir::Shape> shapes = read_shapes(folder);
  HfModel described = import_hf_config(cls, config, naming_of_all(shapes));
  require_tensors(described.names, shapes);
  return described;
}

HfModel describe_hf_config(const std::filesystem::path& file) {
  const base::Json config = read_json(file, base::Code::E1202);
  return import_hf_config(hf_class_of(config), config);
}

}  // namespace megacpp::checkpoint
