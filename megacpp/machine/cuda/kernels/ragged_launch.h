// SPDX-License-Identifier: Apache-2.0
// What launches of experts' products share: the launch before them that lists rows and fills those that are nobody's,
// the tensor maps of their sides, and the shape of a persistent product on tensor cores.
#pragma once

#include <span>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"
#include "megacpp/machine/cuda/kernels/ragged_lists.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

inline constexpr int32_t kDotUnit = kTileRows * kClusterBlocks / kSegmentRows;

/// Results of a product that have rows, all of one width: rows that are nobody's become zeros, or in the first of them
/// the addend's.
struct RowResults {
  std::span<const Address> results = {};
  int64_t row_bytes = 0;
  const void* addend = nullptr;
};

/// Makes the lists in the workspace of the product that follows, and fills its results' rows that are nobody's.
class ListRows {
 public:
  ListRows(const RowLists& lists, Toolbox& toolbox);
  void run(const Launch& launch, Address counts, const RowResults& filled) const;

 private:
  RowLists lists_;
  Function function_;
};

/// Boxes of 128 bytes by `box_rows` of a bf16[rows, columns], or of one of several [matrices, rows, columns].
struct TiledMatrix {
  Address address;
  int64_t columns, rows;
  int box_rows;
  int64_t matrices = 0;
};

TileMap tile_map(const Driver& driver, const TiledMatrix& matrix);

/// A bf16[rows, columns] of experts' rows.
struct RowsTensor {
  Address address;
  int64_t columns, rows;
};

LoadedRows loaded_rows(const Driver& driver, const RowsTensor& tensor);
StoredRows stored_rows(const Driver& driver, const RowsTensor& tensor);

/// The blocks of a persistent product: all that run at once, in clusters.
LaunchShape product_shape(const Toolbox& toolbox);

}  // namespace megacpp::runtime::cuda
