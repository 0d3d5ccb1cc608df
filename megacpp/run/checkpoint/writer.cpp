// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "megacpp/core/base/atomic_folder.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/safetensors.h"

namespace megacpp::checkpoint {
namespace {

namespace fs = std::filesystem;

// Adds them to the manifest.
void write_shards(const fs::path& folder, Manifest& manifest, std::span<const PieceBytes> pieces) {
  std::map<int64_t, std::vector<StoredTensor>> shards;
  for (const PieceBytes& piece : pieces) {
    const std::string file = fmt::format("shard-{:05}.safetensors", piece.shard);
    shards[piece.shard].push_back({piece.tensor, piece.whole.dtype, piece.box.shape, piece.bytes});
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
}

Manifest write_files(const fs::path& folder, Manifest manifest, std::span<const PieceBytes> pieces) {
  write_shards(folder, manifest, pieces);
  base::write_file_atomically(folder / kManifestFile, to_text(manifest));
  return manifest;
}

void require_seen(const fs::path& file, int64_t bytes) {
  const bool is_there = base::exists(file);
  MEGACPP_REQUIRE(is_there && (bytes < 0 || base::file_bytes(file) == bytes), E3001,
                  {.where = file.string(),
                   .got = is_there ? "another size than the process that wrote it says"
                                   : "no such file on this host, where another process has written it",
                   .wanted = "a run directory that all processes share",
                   .next = "give a --run-dir on a file system that every host has"});
}

void add_part(const fs::path& folder, const std::string& name, Manifest& manifest) {
  require_seen(folder / name, -1);
  Manifest part = parse_part(base::read_file(folder / name), (folder / name).string());
  for (const auto& [file, bytes] : part.files) require_seen(folder / file, bytes);
  manifest.files.merge(part.files);
  for (auto& [tensor, saved] : part.tensors) {
    SavedTensor& whole = manifest.tensors[tensor];
    whole.whole = saved.whole;
    whole.is_weight = saved.is_weight;
    whole.pieces.insert(whole.pieces.end(), saved.pieces.begin(), saved.pieces.end());
  }
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

std::string write_part(const Store& store, int64_t step, std::span<const PieceBytes> pieces) {
  if (pieces.empty()) return "";
  const fs::path folder = store.join(step);
  Manifest part;
  write_shards(folder, part, pieces);
  std::string name = fmt::format("part-{:05}.json", pieces.front().shard);
  base::write_file_atomically(folder / name, to_text(part));
  return name;
}

Manifest commit_parts(const Store& store, Manifest header, std::span<const std::string> parts) {
  const int64_t step = header.position.step;
  const fs::path folder = store.join(step);
  for (const std::string& part : parts)
    if (!part.empty()) add_part(folder, part, header);
  for (auto& [name, tensor] : header.tensors) std::ranges::sort(tensor.pieces, {}, &Piece::box);  // as one process has
  const std::string text = to_text(header);
  Manifest manifest = parse_manifest(text, folder.string());
  std::error_code ignored;  // a file too many harms nothing
  for (const std::string& part : parts)
    if (!part.empty()) fs::remove(folder / part, ignored);
  base::write_file_atomically(folder / kManifestFile, text);
  store.commit(step);
  return manifest;
}

}  // namespace megacpp::checkpoint
