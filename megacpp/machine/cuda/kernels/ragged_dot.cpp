// SPDX-License-Identifier: Apache-2.0
// The experts' products and the gradients of their matrices. Counts stay on the device: ragged_rows lists rows there,
// and the products that follow read the list. bf16 goes to tensor cores where rows of all sides are whole multiples of
// 16 bytes, anything else to plain kernels.
#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/ragged_launch.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int32_t kWeightUnit = kTileDepth / kSegmentRows;
constexpr int32_t kPlainUnit = 1;

const void* addend_of(const Launch& launch) {
  return launch.operands.size() == 4 ? rows_pointer<const void>(launch.operands[3]) : nullptr;
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

RowResults filled_rows(const RaggedDotSizes& s, const Launch& launch) {
  return {.results = launch.results, .row_bytes = s.n * ir::dtype_bytes(s.dtype), .addend = addend_of(launch)};
}

RaggedDotParams tensor_core_dot(const RaggedDotSizes& s, const Driver& driver, const Launch& launch) {
  const Address x = launch.operands[0], w = launch.operands[1];
  const int64_t experts = s.lists.layout.experts;
  RaggedDotParams params = {};
  params.a = loaded_rows(driver, {x, s.k, s.rows});
  if (s.adds) params.addend = loaded_rows(driver, {launch.operands[3], s.n, s.rows});
  params.w = s.transposed ? tile_map(driver, {w, s.k, s.n, kTileColumns / kClusterBlocks, experts})
                          : tile_map(driver, {w, s.n, s.k, kTileDepth, experts});
  params.lists = s.lists.at(launch.workspace);
  params.result = stored_rows(driver, {launch.results[0], s.n, s.rows});
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
    rows.run(launch, launch.operands[2], filled_rows(s, launch));
    cuda::launch(function, shape, launch.stream, tensor_core_dot(s, *driver, launch));
  }};
}

Prepared prepare_plain_ragged_dot(const RaggedDotSizes& s, Toolbox& toolbox) {
  const Function function = toolbox.function("ragged_dot_plain", plain_name("ragged_dot_plain", {s.dtype}));
  const int64_t blocks = s.lists.segments() * ((s.n + kPlainTile - 1) / kPlainTile);
  MEGACPP_CHECK(blocks <= INT32_MAX) << "a product of " << blocks << " blocks";
  return {[s, function, blocks, rows = ListRows(s.lists, toolbox)](const Launch& launch) {
    rows.run(launch, launch.operands[2], filled_rows(s, launch));
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
    rows.run(launch, launch.operands[2], {});
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
    rows.run(launch, launch.operands[2], {});
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

constexpr double kPlainRaggedFlops = 12e12;  // a second, of plain arithmetic on all multiprocessors

// A block walks the inner dimension.
double ragged_dot_least_seconds(const ops::NodeView& view) {
  const RaggedDotSizes s = ragged_dot_sizes(view);
  const auto inner = static_cast<double>(s.k);
  if (s.on_tensor_cores) return 8.5e-6 + inner * 15.6e-9;
  return 1e-6 + std::max(inner * 128e-9, ops::op_def("ragged_dot").cost(view).flops / kPlainRaggedFlops);
}

// A block walks the rows of its expert.
double ragged_weight_least_seconds(const ops::NodeView& view) {
  const RaggedWeightSizes s = ragged_weight_sizes(view);
  const double rows = static_cast<double>(s.rows) / static_cast<double>(s.lists.layout.experts);
  if (s.on_tensor_cores) return 9e-6 + rows * 9e-9;
  return 4e-6 + std::max(rows * 170e-9, ops::op_def("ragged_dot_weight").cost(view).flops / kPlainRaggedFlops);
}

}  // namespace

Kernel ragged_dot_kernel() {
  return {.op = "ragged_dot",
          .workspace_bytes = [](const ops::NodeView& view) { return ragged_dot_sizes(view).lists.bytes(); },
          .least_seconds = ragged_dot_least_seconds,
          .prepare = prepare_ragged_dot};
}

Kernel ragged_dot_weight_kernel() {
  return {.op = "ragged_dot_weight",
          .workspace_bytes = [](const ops::NodeView& view) { return ragged_weight_sizes(view).lists.bytes(); },
          .least_seconds = ragged_weight_least_seconds,
          .prepare = prepare_ragged_dot_weight};
}

}  // namespace megacpp::runtime::cuda
