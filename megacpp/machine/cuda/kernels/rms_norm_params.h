// SPDX-License-Identifier: Apache-2.0
// Parameters of rms_norm's kernels; rows of `width` elements are `width / group` groups, one in each block row of the
// grid. A group is read by `lanes` threads, a power of two; a block has several rows.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

struct RmsNormParams {
  uint64_t x, w, y, rstd;  // [rows, width], [width], [rows, width], f32 [rows, groups]
  int64_t rows, width;
  int32_t group, lanes;
  float eps, offset;
};

struct RmsNormGradParams {
  uint64_t x, w, rstd, dy, dx;
  uint64_t addend;    // [rows, width], added to dx; 0: none
  uint64_t partials;  // f32 [parts, width]: of the rows that one block reads
  int64_t rows, width;
  int32_t group, lanes;
  float offset;
};

struct RmsNormWeightParams {
  uint64_t partials, dw;  // f32 [parts, width], [width]
  int64_t width;
  int32_t parts;
};

/// Of a block, where a group needs no more.
inline constexpr int kRmsNormThreads = 128;
/// Most lanes where a block has several rows.
inline constexpr int kRmsNormSharedLanes = kRmsNormThreads / 2;

/// Of the gradient with eight vectors to a lane: vectors of 16 bytes that a thread has of a row, and rows on their way.
inline constexpr int kRmsNormStagedVectors = 8;
inline constexpr int kRmsNormStages = 2;
inline constexpr int kRmsNormStagedBytes =
    kRmsNormStages * 3 * kRmsNormStagedVectors * kRmsNormThreads * 16;  // x, dy and the addend

/// Columns and rows of partial sums that a block of the second pass adds up.
inline constexpr int kRmsNormWeightColumns = 32;
inline constexpr int kRmsNormWeightRows = 32;

}  // namespace megacpp::runtime::cuda
