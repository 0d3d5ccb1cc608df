// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: which whole tensors it has, which rectangle of each stands in which file, and the
// checksums of all of it. Pieces of a tensor cover each of its elements exactly once. It is JSON, carries a checksum of
// its own, and holds nothing that differs between two saves of the same state. A text that is no sound manifest is
// E1204.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/run/checkpoint/box.h"

namespace megacpp::checkpoint {

inline constexpr std::string_view kManifestFile = "manifest.json";

/// One rectangle of a tensor; in its file it goes by the tensor's name.
struct Piece {
  std::string file;
  Box box;
  uint64_t hash = 0;  // xxHash64 of its bytes

  bool operator==(const Piece&) const = default;
};

struct SavedTensor {
  ir::TensorType whole;
  bool is_weight = true;  // else state of the optimizer
  std::vector<Piece> pieces;

  bool operator==(const SavedTensor&) const = default;
};

/// What is known of a run besides its tensors. Random numbers are functions of seed, names and step alone: there is no
/// other random state.
struct RunPosition {
  int64_t step = 0;              // whole steps done
  int64_t samples_consumed = 0;  // sequences
  int64_t seed = 0;

  bool operator==(const RunPosition&) const = default;
};

struct Manifest {
  RunPosition position;
  std::string optimizer;
  std::map<std::string, std::string> model;  // every key of the recipe's model section, and of lora where that is on
  std::string code_version;
  std::map<std::string, int64_t> files;  // bytes by name
  std::map<std::string, SavedTensor> tensors;

  int64_t bytes() const;  // of all tensors
  bool operator==(const Manifest&) const = default;
};

std::string to_text(const Manifest& manifest);
/// `where` names the text in errors.
Manifest parse_manifest(std::string_view text, const std::string& where);
/// The same for what one of several processes has written of a checkpoint: of a tensor it may have some pieces alone.
Manifest parse_part(std::string_view text, const std::string& where);

}  // namespace megacpp::checkpoint
