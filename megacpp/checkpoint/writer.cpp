// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/writer.h"

#include <map>

#include <fmt/format.h>

#include "megacpp/base/atomic_folder.h"
#include "megacpp/base/file.h"
#include "megacpp/base/hash.h"
#include "megacpp/base/path.h"
#include "megacpp/checkpoint/reader.h"
#include "megacpp/checkpoint/safetensors.h"

namespace megacpp::checkpoint {
namespace {

Manifest write_files(const std::filesystem::path& folder, Manifest manifest, std::span<const PieceBytes> pieces) {
  std::map<int64_t, std::vector<StoredTensor>> shards;
  for (const PieceBytes& piece : pieces) {
    const std::string file = fmt::format("shard-{:05}.safetensors", piece.shard);
    shards[piece.shard].push_back({piece.tensor, stored_type(piece.whole.dtype), piece.box.shape, piece.bytes});
    SavedTensor& tensor = manifest.tensors[piece.tensor];
    tensor.whole = piece.whole;
    tensor.is_weight = piece.is_weight;
    tensor.pieces.push_back({.file = file, .box = piece.box, .hash = base::hash_of(piece.bytes)});
    manifest.files[file] = 0;
  }
  for (const auto& [shard, tensors] : shards) {
    const std::string name = fmt::format("shard-{:05}.safetensors", shard);
    write_safetensors(folder / name, tensors, {});
    manifest.files[name] = base::file_bytes(folder / name);
  }
  base::write_file_atomically(folder / kManifestFile, to_text(manifest));
  return manifest;
}

}  // namespace

Manifest write_checkpoint(const Store& store, Manifest header, std::span<const PieceBytes> pieces) {
  const int64_t step = header.position.step;
  try {
    Manifest manifest = write_files(store.begin(step), std::move(header), pieces);
    store.commit(step);
    return manifest;
  } catch (...) {
    store.discard(step);
    throw;
  }
}

Manifest write_checkpoint(const std::filesystem::path& folder, Manifest header, std::span<const PieceBytes> pieces) {
  base::AtomicFolder written(folder);
  Manifest manifest = write_files(written.path(), std::move(header), pieces);
  written.commit();
  return manifest;
}

}  // namespace megacpp::checkpoint
