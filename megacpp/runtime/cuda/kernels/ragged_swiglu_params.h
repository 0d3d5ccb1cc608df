// SPDX-License-Identifier: Apache-2.0
// What host and device share of experts' products with SwiGLU inside. Rows are listed as for other products of experts.
#pragma once

#include "megacpp/runtime/cuda/kernels/ragged_dot_params.h"

namespace megacpp::runtime::cuda {

/// gate = a w[0], up = a w[1], w as [E,k,n]; h = silu(gate) * up of what is rounded.
struct SwigluParams {
  TileMap a, a_segment;  // boxes of kTileRows and of kSegmentRows rows
  TileMap w[2];          // of gate and up, boxes of kTileDepth rows
  SegmentLists lists;    // unit: the rows of a cluster
  void* h;               // bf16[rows, n]
  void *gate, *up;       // likewise; null: not wanted
  int32_t experts, k, n;
};

/// dh = a w, w as [E,n,k]; what it means for gate and up of h = silu(gate) * up.
struct SwigluGradParams {
  TileMap a, a_segment;
  TileMap w;  // boxes of half a tile's columns
  SegmentLists lists;
  const void *gate, *up;  // bf16[rows, n]
  void *dgate, *dup;      // likewise; dgate may be gate
  void* h;                // likewise; null: not wanted
  int32_t experts, k, n;
};

}  // namespace megacpp::runtime::cuda
