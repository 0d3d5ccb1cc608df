// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements: transpose, slice, pad, concatenate, and the index counter iota. Slice, pad and
// concatenate see their tensor as [outer, size along dim, inner] and copy runs of bytes, whatever the dtype.
#include <algorithm>
#include <array>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/layout_params.h"
#include "megacpp/machine/cuda/kernels/row_launch.h"
#include "megacpp/machine/cuda/kernels/transpose_plan.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr std::string_view kLayoutCubin = "layout";

int64_t rows_before(const ir::TensorType& type, int64_t dim) {
  int64_t rows = 1;
  for (int64_t d = 0; d < dim; ++d) rows *= type.dim(d);
  return rows;
}

int64_t bytes_behind(const ir::TensorType& type, int64_t dim) {
  int64_t bytes = ir::dtype_bytes(type.dtype);
  for (int64_t d = dim + 1; d < type.rank(); ++d) bytes *= type.dim(d);
  return bytes;
}

// A run of bytes in each row, perhaps with others around it that are filled.
struct RunCopy {
  int64_t rows;
  int64_t bytes;    // of a run of the result, filled ones counted
  int64_t low = 0;  // filled before what is copied
  int64_t copied;
  int64_t from_pitch;
  int64_t to_pitch;
  int64_t from_first = 0;
  int64_t to_first = 0;
  std::array<uint32_t, 4> fill = {};
};

// Ready to launch.
struct PreparedRuns {
  Function function;
  LaunchShape shape;
  CopyRowsParams params;

  void run(Address from, Address to, Stream* stream) const {
    CopyRowsParams bound = params;
    bound.from = from;
    bound.to = to;
    launch(function, shape, stream, bound);
  }
};

PreparedRuns prepare_runs(const RunCopy& copy, Toolbox& toolbox) {
  const std::array sizes = {copy.bytes,    copy.low,        copy.copied,  copy.from_pitch,
                            copy.to_pitch, copy.from_first, copy.to_first};
  const int64_t unit = access_bytes(sizes);
  PreparedRuns prepared{.function = toolbox.function(kLayoutCubin, "copy_rows_" + std::to_string(unit)),
                        .shape = row_launch(copy.rows, copy.bytes / unit),
                        .params = {.from = 0,
                                   .to = 0,
                                   .rows = copy.rows,
                                   .count = copy.bytes / unit,
                                   .low = copy.low / unit,
                                   .inner = copy.copied / unit,
                                   .from_pitch = copy.from_pitch / unit,
                                   .to_pitch = copy.to_pitch / unit,
                                   .from_first = copy.from_first / unit,
                                   .to_first = copy.to_first / unit,
                                   .fill = {}}};
  std::copy(copy.fill.begin(), copy.fill.end(), prepared.params.fill);
  return prepared;
}

Prepared run_alone(const RunCopy& copy, Toolbox& toolbox) {
  return {.run = [runs = prepare_runs(copy, toolbox)](const Launch& launched) {
    runs.run(launched.operands[0], launched.results[0], launched.stream);
  }};
}

Prepared prepare_slice(const ops::NodeView& view, Toolbox& toolbox) {
  const int64_t dim = view.attrs.integer("dim"), inner = bytes_behind(view.operands[0], dim);
  const int64_t bytes = view.attrs.integer("size") * inner;
  return run_alone({.rows = rows_before(view.operands[0], dim),
                    .bytes = bytes,
                    .copied = bytes,
                    .from_pitch = view.operands[0].dim(dim) * inner,
                    .to_pitch = bytes,
                    .from_first = view.attrs.integer("start") * inner},
                   toolbox);
}

// Sixteen bytes of the number as the dtype stores it.
std::array<uint32_t, 4> fill_words(ir::DType dtype, double value) {
  const auto bits = static_cast<uint32_t>(ir::bits_of(dtype, value));
  uint32_t word = 0;
  for (int shift = 0; shift < 32; shift += ir::record(dtype).bits) word |= bits << shift;
  return {word, word, word, word};
}

Prepared prepare_pad(const ops::NodeView& view, Toolbox& toolbox) {
  const int64_t dim = view.attrs.integer("dim"), inner = bytes_behind(view.operands[0], dim);
  const int64_t copied = view.operands[0].dim(dim) * inner, bytes = view.results[0].dim(dim) * inner;
  return run_alone({.rows = rows_before(view.operands[0], dim),
                    .bytes = bytes,
                    .low = view.attrs.integer("low") * inner,
                    .copied = copied,
                    .from_pitch = copied,
                    .to_pitch = bytes,
                    .fill = fill_words(view.results[0].dtype, view.attrs.real("value", 0.0))},
                   toolbox);
}

Prepared prepare_concatenate(const ops::NodeView& view, Toolbox& toolbox) {
  const int64_t dim = view.attrs.integer("dim"), inner = bytes_behind(view.results[0], dim);
  std::vector<PreparedRuns> parts;
  int64_t first = 0;
  for (const ir::TensorType& part : view.operands) {
    const int64_t bytes = part.dim(dim) * inner;
    const RunCopy copy{.rows = rows_before(part, dim),
                       .bytes = bytes,
                       .copied = bytes,
                       .from_pitch = bytes,
                       .to_pitch = view.results[0].dim(dim) * inner,
                       .to_first = first};
    parts.push_back(prepare_runs(copy, toolbox));
    first += bytes;
  }
  return {.run = [parts](const Launch& launched) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].run(launched.operands[i], launched.results[0], launched.stream);
  }};
}

// ---- Transpose

// The last dimension stays where it is.
Prepared transpose_by_rows(const std::vector<TransposedDim>& dims, int64_t element_bytes, Toolbox& toolbox) {
  const int64_t inner = dims.back().size * element_bytes;
  std::vector<int64_t> sizes = {inner};
  for (size_t d = 0; d + 1 < dims.size(); ++d) sizes.push_back(dims[d].from_stride * element_bytes);
  const int64_t unit = access_bytes(sizes);
  TransposeRowsParams params{};
  params.inner = inner / unit;
  params.dims = static_cast<int32_t>(dims.size()) - 1;
  params.rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    params.sizes[d] = static_cast<uint32_t>(dims[d].size);
    params.from_strides[d] = dims[d].from_stride * element_bytes / unit;
    params.rows *= dims[d].size;
  }
  const Function function = toolbox.function(kLayoutCubin, "transpose_rows_" + std::to_string(unit));
  return {.run = [function, params, shape = row_launch(params.rows, params.inner)](const Launch& launched) {
    TransposeRowsParams bound = params;
    bound.from = launched.operands[0];
    bound.to = launched.results[0];
    launch(function, shape, launched.stream, bound);
  }};
}

TransposeTilesParams tiles_params(const std::vector<TransposedDim>& dims, uint32_t edge) {
  TransposeTilesParams params{};
  params.down = static_cast<uint32_t>(dims.back().size);
  params.from_down = dims.back().from_stride;
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    if (dims[d].from_stride == 1) {
      params.across = static_cast<uint32_t>(dims[d].size);
      params.to_across = dims[d].to_stride;
      continue;
    }
    params.sizes[params.dims] = static_cast<uint32_t>(dims[d].size);
    params.from_strides[params.dims] = dims[d].from_stride;
    params.to_strides[params.dims] = dims[d].to_stride;
    ++params.dims;
  }
  params.tiles_across = (params.across + edge - 1) / edge;
  params.tiles_down = (params.down + edge - 1) / edge;
  return params;
}

Prepared transpose_by_tiles(const std::vector<TransposedDim>& dims, int64_t element_bytes, Toolbox& toolbox) {
  const TransposeTilesParams params =
      tiles_params(dims, static_cast<uint32_t>(transpose_edge(static_cast<int>(element_bytes))));
  uint32_t blocks = params.tiles_across * params.tiles_down;
  for (int32_t d = 0; d < params.dims; ++d) blocks *= params.sizes[d];
  const bool in_vectors =
      element_bytes == 2 && params.across % kTransposeVector == 0 && params.down % kTransposeVector == 0;
  LaunchShape shape{.grid = {blocks, 1, 1}, .block = {kTransposeThreadsAcross, kTransposeThreadsDown, 1}};
  if (in_vectors) shape = {.grid = {blocks, 1, 1}, .block = {kTransposeVectorThreads, 1, 1}};
  const std::string name = (in_vectors ? "transpose_vectors_" : "transpose_tiles_") + std::to_string(element_bytes);
  const Function function = toolbox.function(kLayoutCubin, name);
  return {.run = [function, params, shape](const Launch& launched) {
    TransposeTilesParams bound = params;
    bound.from = launched.operands[0];
    bound.to = launched.results[0];
    launch(function, shape, launched.stream, bound);
  }};
}

Prepared prepare_transpose(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& type = view.operands[0];
  const std::vector<TransposedDim> dims = transposed_dims(type.shape, view.attrs.list("permutation"));
  MEGACPP_CHECK(dims.size() <= kMaxTransposeDims) << "a transpose of " << dims.size() << " dimensions";
  if (type.elements() == 0) return {.run = [](const Launch&) {}};
  if (dims.size() <= 1)
    return run_alone({.rows = 1,
                      .bytes = type.bytes(),
                      .copied = type.bytes(),
                      .from_pitch = type.bytes(),
                      .to_pitch = type.bytes()},
                     toolbox);
  const int64_t element_bytes = ir::dtype_bytes(type.dtype);
  return dims.back().from_stride == 1 ? transpose_by_rows(dims, element_bytes, toolbox)
                                      : transpose_by_tiles(dims, element_bytes, toolbox);
}

Prepared prepare_iota(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& type = view.results[0];
  const int64_t dim = view.attrs.integer("dim");
  const IotaParams params{.to = 0,
                          .count = static_cast<uint64_t>(type.elements()),
                          .inner = static_cast<uint32_t>(bytes_behind(type, dim) / ir::dtype_bytes(type.dtype)),
                          .size = static_cast<uint32_t>(type.dim(dim))};
  const Function function = toolbox.function(kLayoutCubin, "iota_" + std::string(ir::dtype_name(type.dtype)));
  return {.run = [function, params, shape = flat_launch(type.elements())](const Launch& launched) {
    IotaParams bound = params;
    bound.to = launched.results[0];
    launch(function, shape, launched.stream, bound);
  }};
}

}  // namespace

Kernel transpose_kernel() {
  return {.op = "transpose", .workspace_bytes = {}, .supports = {}, .prepare = prepare_transpose};
}
Kernel slice_kernel() { return {.op = "slice", .workspace_bytes = {}, .supports = {}, .prepare = prepare_slice}; }
Kernel pad_kernel() { return {.op = "pad", .workspace_bytes = {}, .supports = {}, .prepare = prepare_pad}; }
Kernel concatenate_kernel() {
  return {.op = "concatenate", .workspace_bytes = {}, .supports = {}, .prepare = prepare_concatenate};
}
Kernel iota_kernel() { return {.op = "iota", .workspace_bytes = {}, .supports = {}, .prepare = prepare_iota}; }

}  // namespace megacpp::runtime::cuda
