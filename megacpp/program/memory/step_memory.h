// SPDX-License-Identifier: Apache-2.0
// How much of a chip's own memory is in use from the first node of a step to the last, by letter of the block. Asked
// for one chip of a run, not for every layout that is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::memory {

/// Bytes of one letter along a step, state included; without alignment and gaps.
struct LetterMemory {
  std::string letter;          // of the block: "A", or "" outside blocks
  std::vector<int64_t> bytes;  // by part of the step
};

/// The nodes of all programs, once each and in their order, cut into at most `parts` equal parts; of each part, the
/// node at which most bytes are alive. Letters by name.
std::vector<LetterMemory> memory_along_step(const std::vector<const ir::Graph*>& programs,
                                            const schedule::Target& target, size_t parts);

}  // namespace megacpp::memory
