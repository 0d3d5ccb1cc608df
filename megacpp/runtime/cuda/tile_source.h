// SPDX-License-Identifier: Apache-2.0
// CUDA C++ text for a `fused` node, compiled when a program is loaded. Sizes, strides and constants stand in the text
// as numbers. It needs no header: what it uses it defines itself. Arithmetic is f32, each op as ops/scalar_ops has it.
// A kernel is written as statements of all threads of its block (EACH_THREAD), with barriers between them and nothing
// but shared memory kept across: a CPU runs the same text with loops in their place, which is how it is tested.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "megacpp/runtime/cuda/tile_plan.h"

namespace megacpp::runtime::cuda {

/// The parameters of both kernels, as the text declares them.
struct TileParams {
  std::array<uint64_t, ops::kMaxTileInputs> operands = {};
  std::array<uint64_t, kMaxTileResults> results = {};
  uint64_t partials = 0;  // f32 [folds, rows, parts]
};

/// Names of the kernels in the text: the first has TilePlan::blocks() blocks, the second, which is there where rows
/// have parts, TilePlan::rows; all of kTileThreads threads.
inline constexpr const char* kTileKernel = "fused";
inline constexpr const char* kTileCombineKernel = "fused_combine";

/// What the device gives meaning to: the text of a kernel is these, then tile_helpers, then tile_kernels. A test has
/// its own in place of the first.
std::string tile_device_macros();
/// Loads, stores and conversions.
std::string tile_helpers();
/// The kernels of one node.
std::string tile_kernels(const TilePlan& plan, const ops::NodeView& view);

/// The whole text.
std::string tile_source(const TilePlan& plan, const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
