// SPDX-License-Identifier: Apache-2.0
// What one launch of the collective kernel moves, whole in its parameters: nothing is uploaded or allocated for a call.
// A piece takes the same runs of bytes of one or several sources, combines them in their order, and leaves the result
// in one or several targets. Plain C++, for the host and the device.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

enum class Combine : uint32_t { copy, sum, max };

// Numbers of ir::DTypeRecord::device_code, but for copies, which do not look.
enum class CollectiveDType : uint32_t { f32, bf16, i32, pred };

inline constexpr uint32_t kCollectiveThreads = 256;  // of a block
inline constexpr uint32_t kUnitsPerThread = 8;
inline constexpr uint32_t kUnitsPerBlock = kCollectiveThreads * kUnitsPerThread;
inline constexpr uint32_t kMaxPieces = 28;
inline constexpr uint32_t kMaxAddresses = 140;

/// Runs as in collectives/runs.h: three nested loops, the last the fastest. A unit is what a thread moves at a time.
struct CollectivePiece {
  int64_t units;             // of all runs
  int64_t units_of_run;      // equal to `units`: one run
  uint32_t middle, last;     // counts of the two inner loops
  int64_t source_first;      // bytes, from the address of every source
  int64_t target_first;      // likewise
  int64_t source_stride[3];  // bytes, by loop
  int64_t target_stride[3];
  uint16_t sources, source_count;  // where they stand among the addresses
  uint16_t targets, target_count;
  uint32_t first_block;  // of the launch
  uint32_t unit_bytes;   // 16, or less where something is not aligned; of sums 16 or one element
};

struct CollectiveParams {
  Combine combine;
  CollectiveDType dtype;
  uint32_t piece_count;
  uint32_t address_count;
  uint64_t addresses[kMaxAddresses];
  CollectivePiece pieces[kMaxPieces];
};
static_assert(sizeof(CollectivePiece) == 104 && sizeof(CollectiveParams) <= 4096);

}  // namespace megacpp::runtime::cuda
