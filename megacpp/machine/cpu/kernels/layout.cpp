// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements: transpose, slice, pad, concatenate, and the index counter iota. Slice, pad and
// concatenate see their tensor as [outer, size along dim, inner] and copy whole runs of bytes, whatever the dtype.
#include <algorithm>
#include <cstring>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/simd.h"
#include "megacpp/machine/cpu/transposer.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kBytesPerGrain = 64 * 1024;

// One strided block copy: `rows` runs of `bytes`, `from_pitch` and `to_pitch` apart.
struct BlockCopy {
  int64_t rows = 0;
  int64_t bytes = 0;
  int64_t from_pitch = 0;
  int64_t to_pitch = 0;
  int64_t from_offset = 0;
  int64_t to_offset = 0;

  void run(const std::byte* from, std::byte* to, base::ThreadPool& pool) const {
    if (bytes == 0) return;
    pool.parallel_for(rows, std::max<int64_t>(1, kBytesPerGrain / bytes), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row)
        std::memcpy(to + to_offset + row * to_pitch, from + from_offset + row * from_pitch, static_cast<size_t>(bytes));
    });
  }
};

int64_t outer_size(const ir::TensorType& type, int64_t dim) {
  int64_t size = 1;
  for (int64_t d = 0; d < dim; ++d) size *= type.dim(d);
  return size;
}

int64_t inner_bytes(const ir::TensorType& type, int64_t dim) {
  int64_t size = ir::dtype_bytes(type.dtype);
  for (int64_t d = dim + 1; d < type.rank(); ++d) size *= type.dim(d);
  return size;
}

Prepared prepare_transpose(const ops::NodeView& view, int) {
  return {.run = [transposer = Transposer(view.operands[0].shape, view.attrs.list("permutation"))](
                     const KernelArgs& args) { transposer.run(args.in(0), args.out(0), args.pool); }};
}

Prepared prepare_slice(const ops::NodeView& view, int) {
  const int64_t dim = view.attrs.integer("dim"), inner = inner_bytes(view.operands[0], dim);
  const BlockCopy copy{.rows = outer_size(view.operands[0], dim),
                       .bytes = view.attrs.integer("size") * inner,
                       .from_pitch = view.operands[0].dim(dim) * inner,
                       .to_pitch = view.results[0].dim(dim) * inner,
                       .from_offset = view.attrs.integer("start") * inner,
                       .to_offset = 0};
  return {.run = [copy](const KernelArgs& args) { copy.run(args.operands[0], args.results[0], args.pool); }};
}

Prepared prepare_pad(const ops::NodeView& view, int) {
  const int64_t dim = view.attrs.integer("dim"), inner = inner_bytes(view.operands[0], dim);
  const BlockCopy copy{.rows = outer_size(view.operands[0], dim),
                       .bytes = view.operands[0].dim(dim) * inner,
                       .from_pitch = view.operands[0].dim(dim) * inner,
                       .to_pitch = view.results[0].dim(dim) * inner,
                       .from_offset = 0,
                       .to_offset = view.attrs.integer("low") * inner};
  const float value = static_cast<float>(view.attrs.real("value", 0.0));
  const int64_t row_elements = copy.to_pitch / 4, low = copy.to_offset / 4, high = low + copy.bytes / 4;
  return {.run = [=](const KernelArgs& args) {
    float* to = args.out(0);
    args.pool.parallel_for(copy.rows, std::max<int64_t>(1, kBytesPerGrain / copy.to_pitch),
                           [=](int64_t begin, int64_t end, int) {
                             for (int64_t row = begin; row < end; ++row) {
                               row_fill(value, to + row * row_elements, low);
                               row_fill(value, to + row * row_elements + high, row_elements - high);
                             }
                           });
    copy.run(args.operands[0], args.results[0], args.pool);
  }};
}

Prepared prepare_concatenate(const ops::NodeView& view, int) {
  const int64_t dim = view.attrs.integer("dim"), inner = inner_bytes(view.results[0], dim);
  std::vector<BlockCopy> copies;
  int64_t start = 0;
  for (const ir::TensorType& part : view.operands) {
    copies.push_back({.rows = outer_size(part, dim),
                      .bytes = part.dim(dim) * inner,
                      .from_pitch = part.dim(dim) * inner,
                      .to_pitch = view.results[0].dim(dim) * inner,
                      .from_offset = 0,
                      .to_offset = start * inner});
    start += part.dim(dim);
  }
  return {.run = [copies](const KernelArgs& args) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(args.operands[i], args.results[0], args.pool);
  }};
}

Prepared prepare_iota(const ops::NodeView& view, int) {
  const int64_t dim = view.attrs.integer("dim"), size = view.results[0].dim(dim);
  const int64_t inner = inner_bytes(view.results[0], dim) / ir::dtype_bytes(view.results[0].dtype);
  const int64_t count = view.results[0].elements();
  const bool real = view.results[0].dtype == ir::DType::f32;
  return {.run = [=](const KernelArgs& args) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = i / inner % size;
      if (real)
        args.out<float>(0)[i] = static_cast<float>(index);
      else
        args.out<int32_t>(0)[i] = static_cast<int32_t>(index);
    }
  }};
}

base::Decision only_four_bytes(const ops::NodeView& view) {
  const int64_t bytes = ir::dtype_bytes(view.operands[0].dtype);
  return bytes == 1 ? base::Decision::no("elements of one byte") : base::Decision::yes();
}

}  // namespace

Kernel transpose_kernel() { return {.op = "transpose", .prepare = prepare_transpose, .supports = only_four_bytes}; }
Kernel slice_kernel() { return {.op = "slice", .prepare = prepare_slice, .supports = {}, .takes_any_storage = true}; }
Kernel pad_kernel() { return {.op = "pad", .prepare = prepare_pad, .supports = only_four_bytes}; }
Kernel concatenate_kernel() {
  return {.op = "concatenate", .prepare = prepare_concatenate, .supports = {}, .takes_any_storage = true};
}
Kernel iota_kernel() { return {.op = "iota", .prepare = prepare_iota}; }

}  // namespace megacpp::runtime::cpu
