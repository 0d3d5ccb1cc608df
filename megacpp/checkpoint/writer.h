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

#include "megacpp/checkpoint/box.h"
#include "megacpp/checkpoint/manifest.h"
#include "megacpp/checkpoint/store.h"

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

}  // namespace megacpp::checkpoint
