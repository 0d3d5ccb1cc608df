// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/ragged_launch.h"

#include <algorithm>
#include <bit>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/tensor_map.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kFillingBlocks = 128;  // of all chunks together

// Whether there are rows to fill: none of a result that takes the addend's place.
bool is_filled(const RowResults& filled) {
  return !filled.results.empty() && filled.addend != rows_pointer<const void>(filled.results[0]);
}

}  // namespace

ListRows::ListRows(const RowLists& lists, Toolbox& toolbox)
    : lists_(lists), function_(toolbox.function("ragged_rows", "ragged_rows")) {
  MEGACPP_CHECK(lists.layout.chunks * lists.layout.chunk_rows < INT32_MAX - kTileRows * kClusterBlocks &&
                lists.layout.experts <= UINT16_MAX)
      << lists.layout.chunks << " chunks of " << lists.layout.chunk_rows << " rows, " << lists.layout.experts
      << " experts";
}

void ListRows::run(const Launch& launch, Address counts, const RowResults& filled) const {
  MEGACPP_CHECK(filled.results.size() <= kMostRowResults) << filled.results.size() << " results with rows";
  const int64_t filling = is_filled(filled) ? std::max<int64_t>(kFillingBlocks / lists_.layout.chunks, 1) : 0;
  RaggedRowsParams params = {
      .layout = lists_.layout,
      .counts = rows_pointer<const int32_t>(counts),
      .unit = lists_.unit,
      .first = rows_pointer<int32_t>(launch.workspace),
      .groups = rows_pointer<RowGroup>(launch.workspace + static_cast<Address>(lists_.groups_at())),
      .segments = rows_pointer<Segment>(launch.workspace + static_cast<Address>(lists_.segments_at())),
      .results = {},
      .addend = static_cast<const unsigned char*>(filled.addend),
      .row_bytes = filled.row_bytes,
      .fill_blocks = static_cast<int32_t>(filling)};
  for (size_t r = 0; r < filled.results.size(); ++r) params.results[r] = rows_pointer<unsigned char>(filled.results[r]);
  const uint32_t blocks = static_cast<uint32_t>(1 + lists_.layout.chunks * filling);
  cuda::launch(function_, {.grid = {blocks, 1, 1}, .block = {kRowsThreads, 1, 1}}, launch.stream, params);
}

TileMap tile_map(const Driver& driver, const TiledMatrix& matrix) {
  const uint64_t columns = static_cast<uint64_t>(matrix.columns), rows = static_cast<uint64_t>(matrix.rows);
  TiledTensor tensor;
  tensor.type = MapType::bf16;
  tensor.address = matrix.address;
  tensor.shape = {columns, rows};
  tensor.strides = {columns * 2};
  tensor.box = {64, static_cast<uint32_t>(matrix.box_rows)};
  tensor.swizzle = Swizzle::bytes_128;
  if (matrix.matrices > 0) {
    tensor.shape.push_back(static_cast<uint64_t>(matrix.matrices));
    tensor.strides.push_back(columns * rows * 2);
    tensor.box.push_back(1);
  }
  return std::bit_cast<TileMap>(make_tensor_map(driver, tensor));
}

LoadedRows loaded_rows(const Driver& driver, const RowsTensor& tensor) {
  return {.tile = tile_map(driver, {tensor.address, tensor.columns, tensor.rows, kTileRows}),
          .segment = tile_map(driver, {tensor.address, tensor.columns, tensor.rows, kSegmentRows})};
}

StoredRows stored_rows(const Driver& driver, const RowsTensor& tensor) {
  return {.warp = tile_map(driver, {tensor.address, tensor.columns, tensor.rows, kWarpRows}),
          .values = rows_pointer<void>(tensor.address),
          .unused = {}};
}

LaunchShape product_shape(const Toolbox& toolbox) {
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(toolbox.properties().multiprocessors / kClusterBlocks * kClusterBlocks);
  shape.block[0] = kProductThreads;
  shape.shared_bytes = kProductSharedBytes;
  shape.cluster[0] = kClusterBlocks;
  return shape;
}

}  // namespace megacpp::runtime::cuda
