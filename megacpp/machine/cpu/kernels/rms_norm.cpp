// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/row_grain.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

struct NormSizes {
  int64_t rows, width, group, groups;  // width = groups * group
  float eps, offset;
  int64_t row_bytes;  // of one scratch row
  int64_t grain;      // rows

  explicit NormSizes(const ops::NodeView& view) {
    const int64_t size = view.attrs.integer("group_size", 0);
    width = view.operands[0].dim(-1);
    rows = view.operands[0].elements() / width;
    group = size == 0 ? width : size;
    groups = width / group;
    eps = static_cast<float>(view.attrs.real("eps"));
    offset = static_cast<float>(view.attrs.real("offset", 0.0));
    row_bytes = (width * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
    grain = row_grain(width);
  }
};

// w + offset, in the first scratch row unless it is w itself.
const float* gain_of(const NormSizes& s, const KernelArgs& args) {
  if (s.offset == 0.0F) return args.in(1);
  row_offset(s.offset, args.in(1), args.scratch(), s.width);
  return args.scratch();
}

Prepared prepare_norm(const ops::NodeView& view, int) {
  const NormSizes s(view);
  const auto run = [s](const KernelArgs& args) {
    const float* gain = gain_of(s, args);  // [d]
    args.pool.parallel_for(s.rows * s.groups, s.grain * s.groups, [&](int64_t begin, int64_t end, int) {
      for (int64_t g = begin; g < end; ++g) {
        const float* x = args.in(0) + g * s.group;
        float* y = args.out(0) + g * s.group;
        const float rstd = 1.0F / std::sqrt(row_sum_squares(x, s.group) / static_cast<float>(s.group) + s.eps);
        row_scale(rstd, x, y, s.group);
        row_mul(y, gain + g % s.groups * s.group, y, s.group);
        args.out(1)[g] = rstd;
      }
    });
  };
  return {run, s.row_bytes};
}

struct GroupGrad {
  const float *x, *gain, *dy;
  const float* addend;  // null: none
  float rstd;
  float *dx, *dw, *products;  // dx may be dy or the addend; dw is added to; products is scratch
};

// dx = rstd * (dy gain - xhat mean(dy gain xhat)) + addend, dw += dy xhat, with xhat = rstd x.
void group_grad(const GroupGrad& g, int64_t size) {
  row_mul(g.dy, g.x, g.products, size);
  row_axpy(g.rstd, g.products, g.dw, size);
  const float along = row_dot(g.products, g.gain, size) / static_cast<float>(size);
  float* const dx = g.addend == nullptr ? g.dx : g.products;
  row_mul(g.dy, g.gain, dx, size);
  row_scale(g.rstd, dx, dx, size);
  row_axpy(-along * g.rstd * g.rstd * g.rstd, g.x, dx, size);
  if (g.addend != nullptr) row_add(dx, g.addend, g.dx, size);
}

// Scratch rows: the gain, then for each worker a sum of dw and a row of products.
Prepared prepare_norm_grad(const ops::NodeView& view, int threads) {
  const NormSizes s(view);
  const auto run = [s, adds = view.operands.size() == 5](const KernelArgs& args) {
    const float* gain = gain_of(s, args);
    const auto dw_part = [&](int64_t worker) { return args.scratch((1 + 2 * worker) * s.row_bytes); };
    const int64_t workers = args.pool.size();
    for (int64_t worker = 0; worker < workers; ++worker) std::fill_n(dw_part(worker), s.width, 0.0F);
    args.pool.parallel_for(s.rows, s.grain, [&](int64_t begin, int64_t end, int worker) {
      float* products = args.scratch((2 + 2 * worker) * s.row_bytes);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t g = 0; g < s.groups; ++g) {
          const int64_t column = g * s.group;
          const int64_t at = row * s.width + column;
          group_grad({.x = args.in(0) + at,
                      .gain = gain + column,
                      .dy = args.in(3) + at,
                      .addend = adds ? args.in(4) + at : nullptr,
                      .rstd = args.in(2)[row * s.groups + g],
                      .dx = args.out(0) + at,
                      .dw = dw_part(worker) + column,
                      .products = products},
                     s.group);
        }
      }
    });
    float* dw = args.out(1);  // [d]
    std::copy_n(dw_part(0), s.width, dw);
    for (int64_t worker = 1; worker < workers; ++worker) row_add(dw, dw_part(worker), dw, s.width);
  };
  return {run, (1 + 2 * threads) * s.row_bytes};
}

}  // namespace

Kernel rms_norm_kernel() { return {.op = "rms_norm", .prepare = prepare_norm}; }
Kernel rms_norm_grad_kernel() { return {.op = "rms_norm_grad", .prepare = prepare_norm_grad}; }

}  // namespace megacpp::runtime::cpu
