// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/hf_folder.h"

#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"

namespace megacpp::checkpoint {
namespace {

base::Json read_json(const std::filesystem::path& path, base::Code code) {
  return base::parse_json(base::read_file(path), code, path.string());
}

/// The files an index names, each once. Only plain names are followed: an index must not lead out of its folder.
std::set<std::string> indexed_files(const std::filesystem::path& index) {
  const base::Json json = read_json(index, base::Code::E1201);
  const base::Json* weights = base::find_member(json, "weight_map");
  std::set<std::string> files;
  bool sound = weights != nullptr && weights->is_object() && !weights->empty();
  if (sound) {
    for (const base::Json& entry : *weights) {
      const std::string* file = base::as_text(entry);
      sound = sound && file != nullptr && std::filesystem::path(*file).filename() == *file;
      if (sound) files.insert(*file);
    }
  }
  MEGACPP_REQUIRE(sound, E1201,
                  {.where = index.string(),
                   .got = "no usable weight_map",
                   .wanted = "tensor names with the file in this folder that holds each",
                   .next = "get the index file again"});
  return files;
}

TensorMap read_folder(const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (!std::filesystem::exists(index)) return read_tensors(SafetensorsFile(folder / "model.safetensors"));
  TensorMap tensors;
  for (const std::string& file : indexed_files(index)) tensors.merge(read_tensors(SafetensorsFile(folder / file)));
  return tensors;
}

HfNaming naming_of_all(const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (naming_of(name) == HfNaming::on_disk) return HfNaming::on_disk;
  }
  return HfNaming::in_memory;
}

}  // namespace

ImportedModel import_hf_folder(const std::filesystem::path& folder) {
  const base::Json config = read_json(folder / "config.json", base::Code::E1202);
  const TensorMap theirs = read_folder(folder);
  ImportedModel imported;
  imported.description = import_hf_config(hf_class_of(config), config, naming_of_all(theirs));
  imported.tensors = import_tensors(imported.description.names, theirs);
  return imported;
}

}  // namespace megacpp::checkpoint
