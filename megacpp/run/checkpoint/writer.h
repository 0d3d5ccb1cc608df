// SPDX-License-Identifier: Apache-2.0
// Writes one checkpoint: a safetensors file for each shard, then the manifest, into the store's partial folder, which
// gets its name once all of it is on the disk. What fails before leaves nothing behind, and the checkpoints before as
// they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/checkpoint/box.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/checkpoint/store.h"

namespace megacpp::checkpoint {

/// One rectangle of a tensor, in memory without padding.
struct PieceBytes {
  std::string tensor;
  ir::TensorType whole;
  bool is_weight = true;
  int64_t shard = 0;  // the file it goes to
  Box box;
  std::span<const std::byte> bytes;
};

/// `header`: all but files and tensors. The same pieces give the same bytes in every file. E3001 where the disk does
/// not take them.
Manifest write_checkpoint(const Store& store, Manifest header, std::span<const PieceBytes> pieces);

/// The same into a folder that must not exist yet, which is a checkpoint then.
Manifest write_checkpoint(const std::filesystem::path& folder, Manifest header, std::span<const PieceBytes> pieces);

/// Of one checkpoint that several processes write: the pieces of one of them, into the folder that Store::begin() has
/// made for the step, with a file that lists them. Returns the name of that file; empty where there are no pieces. No
/// two processes have pieces of the same shard.
std::string write_part(const Store& store, int64_t step, std::span<const PieceBytes> pieces);
/// Makes a checkpoint of the parts of all, once all are written. E3001 where a file is not there: processes that do not
/// share a file system; E1204 where pieces are missing.
Manifest commit_parts(const Store& store, Manifest header, std::span<const std::string> parts);

}  // namespace megacpp::checkpoint
