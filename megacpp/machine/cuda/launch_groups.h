// SPDX-License-Identifier: Apache-2.0
// Which launches of a sequence may be one: those of the same kernel that touch nothing of each other's, as multi-tensor
// optimizers do it. Dependencies are those of the bytes that launches read and write, whoever's they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace megacpp::runtime::cuda {

struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // one behind the last
};

struct LaunchFootprint {
  /// Launches of the same number may be one; below 0: of none.
  int64_t kernel = -1;
  size_t max_group = 1;  // most launches that are one, the same for all of a kernel
  std::vector<ByteRange> reads = {};
  std::vector<ByteRange> writes = {};  // also what is read and written
};

/// Whether their order counts.
bool depend(const LaunchFootprint& one, const LaunchFootprint& other);

/// All launches, by number, in groups: each group is one launch, and groups run in this order. A launch joins the last
/// group of its kernel, and so moves to where that stands, unless it depends on a launch of that group or of one behind
/// it. Members of a group are in their own order. Takes as many comparisons as there are pairs.
std::vector<std::vector<size_t>> group_launches(std::span<const LaunchFootprint> launches);

}  // namespace megacpp::runtime::cuda
