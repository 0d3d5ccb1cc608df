// SPDX-License-Identifier: Apache-2.0
// New checkpoints from given ones: other shards, weights in another type, adapters merged or alone, the mean of
// several. Tensors are put together in memory first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "megacpp/run/checkpoint/reader.h"

namespace megacpp::checkpoint {

/// What becomes of LoRA adapters.
enum class Adapters : uint8_t {
  kept,    // beside the model, as any other weights
  alone,   // without the model, and without the state of the optimizer
  merged,  // into the model (see adapters.h), which then is one without adapters; without the state of the optimizer
};

struct ConvertOptions {
  int64_t shards = 1;                  // files; tensors are cut along their first dimension
  std::optional<ir::DType> type = {};  // of weights; nothing: as they are
  bool weights_only = false;           // without the state of the optimizer
  Adapters adapters = Adapters::kept;
};

/// Writes the checkpoint anew into `folder`, which must not exist yet (E3001). E1205 where adapters are to be alone or
/// merged and there are none.
Manifest convert(const Reader& reader, const std::filesystem::path& folder, const ConvertOptions& options);

/// The mean of the weights of several checkpoints of one model (E1205), summed in double precision in the order given;
/// without optimizer state. The position is that of the last.
Manifest average(std::span<const Reader> readers, const std::filesystem::path& folder);

}  // namespace megacpp::checkpoint
