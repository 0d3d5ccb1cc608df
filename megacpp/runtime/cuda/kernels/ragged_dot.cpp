// SPDX-License-Identifier: Apache-2.0
// The experts' products and the gradients of their matrices. Counts stay on the device: ragged_rows lists rows there,
// and the products that follow read the list. bf16 goes to tensor cores where rows of all sides are whole multiples of
// 16 bytes, anything else to plain kernels.
#include <algorithm>
#include <bit>

#include "megacpp/base/error.h"
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/runtime/cuda/kernels/ragged_dot_params.h"
#include "megacpp/runtime/cuda/kernels/ragged_lists.h"
#include "megacpp/runtime/cuda/tensor_map.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int32_t kDotUnit = kTileRows * kClusterBlocks / kSegmentRows;
constexpr int32_t kWeightUnit = kTileDepth / kSegmentRows;
constexpr int32_t kPlainUnit = 1;
constexpr int64_t kFillingBlocks = 128;  // of all chunks together

const void* addend_of(const Launch& launch) {
  return launch.operands.size() == 4 ? rows_pointer<const void>(launch.operands[3]) : nullptr;
}

// Makes the lists, and fills a result's rows that are nobody's where it has rows: with zeros or what is added to.
class ListRows {
 public:
  ListRows(const RowLists& lists, Toolbox& toolbox)
      : lists_(lists), function_(toolbox.function("ragged_rows", "ragged_rows")) {
    MEGACPP_CHECK(lists.layout.chunks * lists.layout.chunk_rows < INT32_MAX - kTileRows * kClusterBlocks &&
                  lists.layout.experts <= UINT16_MAX)
        << lists.layout.chunks << " chunks of " << lists.layout.chunk_rows << " rows, " << lists.layout.experts
        << " experts";
  }

  void run(const Launch& launch, int64_t row_bytes) const {
    const bool is_filled = row_bytes > 0 && addend_of(launch) != rows_pointer<const void>(launch.results[0]);
    const int64_t filling = is_filled ? std::max<int64_t>(kFillingBlocks / lists_.layout.chunks, 1) : 0;
    const RaggedRowsParams params = {
        .layout = lists_.layout,
        .counts = rows_pointer<const int32_t>(launch.operands[2]),
        .unit = lists_.unit,
        .first = rows_pointer<int32_t>(launch.workspace),
        .groups = rows_pointer<RowGroup>(launch.workspace + static_cast<Address>(lists_.groups_at())),
        .segments = rows_pointer<Segment>(launch.workspace + static_cast<Address>(lists_.segments_at())),
        .result = rows_pointer<unsigned char>(launch.results[0]),
        .addend = static_cast<const unsigned char*>(addend_of(launch)),
        .row_bytes = row_bytes,
        .fill_blocks = static_cast<int32_t>(filling)};
    const uint32_t blocks = static_cast<uint32_t>(1 + lists_.layout.chunks * filling);
    cuda::launch(function_, {.grid = {blocks, 1, 1}, .block = {kRowsThreads, 1, 1}}, launch.stream, params);
  }

 private:
  RowLists lists_;
  Function function_;
};

// Boxes of 128 bytes by `box_rows` of a bf16[rows, columns], or of one of several [matrices, rows, columns].
struct TiledMatrix {
  Address address;
  int64_t columns, rows;
  int box_rows;
  int64_t matrices = 0;
};

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

// The blocks of a persistent product: all that run at once, in clusters.
LaunchShape product_shape(const Toolbox& toolbox) {
  LaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(toolbox.properties().multiprocessors / kClusterBlocks * kClusterBlocks);
  shape.block[0] = kProductThreads;
  shape.shared_bytes = kProductSharedBytes;
  shape.cluster[0] = kClusterBlocks;
  return shape;
}

bool takes_tensor_cores(const ir::TensorType& left, const ir::TensorType& right) {
  const int64_t elements = 8;  // of 16 bytes
  return left.dtype == ir::DType::bf16 && left.dim(-1) % elements == 0 && right.dim(-1) % elements == 0;
}

std::string plain_name(const char* op, std::initializer_list<ir::DType> dtypes) {
  std::string name = op;
  for (const ir::DType dtype : dtypes) name += "_" + std::string(ir::dtype_name(dtype));
  return name;
}

// ---- ragged_dot: x[rows, k], w[E, k, n] or transposed [E, n, k], counts, maybe an addend like the result ----

struct RaggedDotSizes {
  RowLists lists;
  int64_t rows, k, n;
  ir::DType dtype;
  bool transposed, adds, on_tensor_cores;
};

RaggedDotSizes ragged_dot_sizes(const ops::NodeView& view) {
  const ir::TensorType &x = view.operands[0], &w = view.operands[1];
  const RowLayout layout = row_layout(x, view.operands[2]);
  // Results are rows as well, and go out by 16 bytes.
  const bool on_tensor_cores = takes_tensor_cores(x, view.results[0]);
  return {.lists = {layout, on_tensor_cores ? kDotUnit : kPlainUnit},
          .rows = layout.chunks * layout.chunk_rows,
          .k = x.dim(-1),
          .n = view.results[0].dim(-1),
          .dtype = w.dtype,
          .transposed = view.attrs.flag("transpose_w"),
          .adds = view.operands.size() == 4,
          .on_tensor_cores = on_tensor_cores};
}

RaggedDotParams tensor_core_dot(const RaggedDotSizes& s, const Driver& driver, const Launch& launch) {
  const Address x = launch.operands[0], w = launch.operands[1];
  const int64_t experts = s.lists.layout.experts;
  RaggedDotParams params = {};
  params.a = tile_map(driver, {x, s.k, s.rows, kTileRows});
  params.a_segment = tile_map(driver, {x, s.k, s.rows, kSegmentRows});
  params.w = s.transposed ? tile_map(driver, {w, s.k, s.n, kTileColumns / kClusterBlocks, experts})
                          : tile_map(driver, {w, s.n, s.k, kTileDepth, experts});
  params.lists = s.lists.at(launch.workspace);
  params.addend = addend_of(launch);
  params.result = rows_pointer<void>(launch.results[0]);
  params.experts = static_cast<int32_t>(experts);
  params.k = static_cast<int32_t>(s.k);
  params.n = static_cast<int32_t>(s.n);
  return params;
}

Prepared prepare_tensor_core_dot(const RaggedDotSizes& s, Toolbox& toolbox) {
  const std::string name = s.transposed ? "ragged_dot_transposed" : "ragged_dot";
  const Function function = toolbox.function("ragged_dot", s.adds ? name + "_add" : name);
  return {[s, function, rows = ListRows(s.lists, toolbox), driver = &toolbox.driver(),
           shape = product_shape(toolbox)](const Launch& launch) {
    rows.run(launch, s.n * ir::dtype_bytes(s.dtype));
    cuda::launch(function, shape, launch.stream, tensor_core_dot(s, *driver, launch));
  }};
}

Prepared prepare_plain_ragged_dot(const RaggedDotSizes& s, Toolbox& toolbox) {
  const Function function = toolbox.function("ragged_dot_plain", plain_name("ragged_dot_plain", {s.dtype}));
  const int64_t blocks = s.lists.segments() * ((s.n + kPlainTile - 1) / kPlainTile);
  MEGACPP_CHECK(blocks <= INT32_MAX) << "a product of " << blocks << " blocks";
  return {[s, function, blocks, rows = ListRows(s.lists, toolbox)](const Launch& launch) {
    rows.run(launch, s.n * ir::dtype_bytes(s.dtype));
    const PlainRaggedDotParams params = {.a = rows_pointer<const void>(launch.operands[0]),
                                         .w = rows_pointer<const void>(launch.operands[1]),
                                         .lists = s.lists.at(launch.workspace),
                                         .addend = addend_of(launch),
                                         .result = rows_pointer<void>(launch.results[0]),
                                         .k = s.k,
                                         .n = s.n,
                                         .w_k_stride = s.transposed ? 1 : s.n,
                                         .w_n_stride = s.transposed ? s.k : 1,
                                         .experts = static_cast<int32_t>(s.lists.layout.experts)};
    cuda::launch(function, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kPlainThreads, 1, 1}},
                 launch.stream, params);
  }};
}

Prepared prepare_ragged_dot(const ops::NodeView& view, Toolbox& toolbox) {
  const RaggedDotSizes s = ragged_dot_sizes(view);
  return s.on_tensor_cores ? prepare_tensor_core_dot(s, toolbox) : prepare_plain_ragged_dot(s, toolbox);
}

// ---- ragged_dot_weight: x[rows, h], dy[rows, f], counts, maybe an addend; [E, h, f] or transposed [E, f, h] ----

struct RaggedWeightSizes {
  RowLists lists;
  int64_t rows, m, n;
  size_t a, b;  // which operands give the rows and the columns of the result
  ir::DType dtype, result;
  bool on_tensor_cores;
};

RaggedWeightSizes ragged_weight_sizes(const ops::NodeView& view) {
  const bool transposed = view.attrs.flag("transpose_w");
  const RowLayout layout = row_layout(view.operands[0], view.operands[2]);
  const bool on_tensor_cores = takes_tensor_cores(view.operands[0], view.operands[1]);
  return {.lists = {layout, on_tensor_cores ? kWeightUnit : kPlainUnit},
          .rows = layout.chunks * layout.chunk_rows,
          .m = view.results[0].dim(1),
          .n = view.results[0].dim(2),
          .a = transposed ? size_t{1} : size_t{0},
          .b = transposed ? size_t{0} : size_t{1},
          .dtype = view.operands[0].dtype,
          .result = view.results[0].dtype,
          .on_tensor_cores = on_tensor_cores};
}

RaggedDotWeightParams tensor_core_weight(const RaggedWeightSizes& s, const Driver& driver, const Launch& launch) {
  const Address a = launch.operands[s.a], b = launch.operands[s.b];
  RaggedDotWeightParams params = {};
  params.a = tile_map(driver, {a, s.m, s.rows, kTileDepth});
  params.a_segment = tile_map(driver, {a, s.m, s.rows, kSegmentRows});
  params.b = tile_map(driver, {b, s.n, s.rows, kTileDepth});
  params.b_segment = tile_map(driver, {b, s.n, s.rows, kSegmentRows});
  params.lists = s.lists.at(launch.workspace);
  params.addend = addend_of(launch);
  params.result = rows_pointer<void>(launch.results[0]);
  params.experts = static_cast<int32_t>(s.lists.layout.experts);
  params.m = static_cast<int32_t>(s.m);
  params.n = static_cast<int32_t>(s.n);
  return params;
}

Prepared prepare_tensor_core_weight(const RaggedWeightSizes& s, Toolbox& toolbox) {
  const Function function = toolbox.function("ragged_dot_weight", plain_name("ragged_dot_weight", {s.result}));
  return {[s, function, rows = ListRows(s.lists, toolbox), driver = &toolbox.driver(),
           shape = product_shape(toolbox)](const Launch& launch) {
    rows.run(launch, 0);
    cuda::launch(function, shape, launch.stream, tensor_core_weight(s, *driver, launch));
  }};
}

Prepared prepare_plain_weight(const RaggedWeightSizes& s, Toolbox& toolbox) {
  const Function function =
      toolbox.function("ragged_dot_plain", plain_name("ragged_dot_weight_plain", {s.dtype, s.result}));
  const auto tiles = [](int64_t size) { return (size + kPlainTile - 1) / kPlainTile; };
  const int64_t blocks = s.lists.layout.experts * tiles(s.m) * tiles(s.n);
  MEGACPP_CHECK(blocks <= INT32_MAX) << "a product of " << blocks << " blocks";
  return {[s, function, blocks, rows = ListRows(s.lists, toolbox)](const Launch& launch) {
    rows.run(launch, 0);
    const PlainRaggedDotWeightParams params = {.a = rows_pointer<const void>(launch.operands[s.a]),
                                               .b = rows_pointer<const void>(launch.operands[s.b]),
                                               .lists = s.lists.at(launch.workspace),
                                               .addend = addend_of(launch),
                                               .result = rows_pointer<void>(launch.results[0]),
                                               .m = s.m,
                                               .n = s.n};
    cuda::launch(function, {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kPlainThreads, 1, 1}},
                 launch.stream, params);
  }};
}

Prepared prepare_ragged_dot_weight(const ops::NodeView& view, Toolbox& toolbox) {
  const RaggedWeightSizes s = ragged_weight_sizes(view);
  return s.on_tensor_cores ? prepare_tensor_core_weight(s, toolbox) : prepare_plain_weight(s, toolbox);
}

}  // namespace

Kernel ragged_dot_kernel() {
  return {.op = "ragged_dot",
          .workspace_bytes = [](const ops::NodeView& view) { return ragged_dot_sizes(view).lists.bytes(); },
          .prepare = prepare_ragged_dot};
}

Kernel ragged_dot_weight_kernel() {
  return {.op = "ragged_dot_weight",
          .workspace_bytes = [](const ops::NodeView& view) { return ragged_weight_sizes(view).lists.bytes(); },
          .prepare = prepare_ragged_dot_weight};
}

}  // namespace megacpp::runtime::cuda
