// SPDX-License-Identifier: Apache-2.0
// What host and device share of experts' products with SwiGLU inside. Rows are listed as for other products of experts.
#pragma once

#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"

namespace megacpp::runtime::cuda {

/// gate = a w[0], up = a w[1], w as [E,k,n]; h = silu(gate) * up of what is rounded.
struct SwigluParams {
  LoadedRows a;
  TileMap w[2];            // of gate and up, boxes of kTileDepth rows
  SegmentLists lists;      // unit: the rows of a cluster
  StoredRows h, gate, up;  // [rows, n]; gate and up may be not wanted
  int32_t experts, k, n;
};

/// dh = a w, w as [E,n,k]; what it means for gate and up of h = silu(gate) * up.
struct SwigluGradParams {
  LoadedRows a;
  TileMap w;  // boxes of half a tile's columns
  SegmentLists lists;
  LoadedRows gate, up;       // [rows, n]
  StoredRows dgate, dup, h;  // likewise; dgate may be gate, h not wanted
  int32_t experts, k, n;
};

}  // namespace megacpp::runtime::cuda
