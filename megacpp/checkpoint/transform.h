// SPDX-License-Identifier: Apache-2.0
// New checkpoints from given ones: other shards, weights in another type, the mean of several. Tensors are put together
// in memory first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "megacpp/checkpoint/reader.h"

namespace megacpp::checkpoint {

struct ConvertOptions {
  int64_t shards = 1;                  // files; tensors are cut along their first dimension
  std::optional<ir::DType> type = {};  // of weights; nothing: as they are
  bool weights_only = false;           // without the state of the optimizer
};

/// Writes the checkpoint anew into `folder`, which must not exist yet (E3001).
Manifest convert(const Reader& reader, const std::filesystem::path& folder, const ConvertOptions& options);

/// The mean of the weights of several checkpoints of one model (E1205), summed in double precision in the order given;
/// without optimizer state. The position is that of the last.
Manifest average(std::span<const Reader> readers, const std::filesystem::path& folder);

}  // namespace megacpp::checkpoint
