// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/kernels/ssd_walk.h"

#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {

SsdWalkPlan plan_ssd_walk(const SsdShape& v, ScratchPlan& scratch) {
  return {.scores = scratch.book(v.length * v.length),
          .mixing = scratch.book(v.length * v.length),
          .pairs = scratch.book(packed_row(v.length)),
          .dt = scratch.book(v.length),
          .from_start = scratch.book(v.length),
          .added = scratch.book(v.length),
          .whole = scratch.book(v.block_heads()),
          .row = scratch.book(v.block_columns()),
          .x_added = scratch.book(v.length * v.block_columns()),
          .sums = scratch.book(2 * v.length)};
}

SsdWalk::SsdWalk(const SsdShape& v, const SsdWalkPlan& shared, const KernelArgs& args, int64_t index, float* scratch)
    : v_(v),
      args_(args),
      task_(ssd_task(v, index)),
      columns_(task_.heads * v.head_dim),
      shared_(shared),
      scratch_(scratch) {
  row_fill(0.0F, part(shared_.mixing), v_.length * v_.length);
}

void SsdWalk::enter(int64_t chunk) {
  chunk_ = chunk;
  span_ = ssd_span(v_, task_, chunk);
  has_previous_ = chunk > 0;
  has_next_ = chunk + 1 < v_.chunks;
}

SsdDecay SsdWalk::decay(int64_t h) const {
  return {args_.in(kDt) + span_.dt + h,
          v_.heads,
          args_.in(kA)[task_.head + h],
          span_.rows,
          reinterpret_cast<double*>(part(shared_.sums)),
          v_.positions == 0 ? nullptr : args_.in<int32_t>(v_.positions) + span_.row};
}

void SsdWalk::fill_dt(int64_t h) {
  float* dt = part(shared_.dt);
  for (int64_t j = 0; j < span_.rows; ++j) dt[j] = args_.in(kDt)[span_.dt + h + j * v_.heads];
}

void SsdWalk::fill_pairs(int64_t h) { decay_of_pairs(decay(h), part(shared_.pairs)); }

void SsdWalk::fill_from_start(int64_t h) {
  decay_from_start(decay(h), part(shared_.from_start));
  part(shared_.whole)[h] = part(shared_.from_start)[span_.rows - 1];
}

void SsdWalk::fill_x_added(int64_t h) {
  decay_of_added(decay(h), part(shared_.added));
  scale_rows(part(shared_.added), args_.in(kX) + head_at(h), v_.x_stride(), part(shared_.x_added) + h * v_.head_dim,
             columns_, span_.rows, v_.head_dim);
}

void SsdWalk::fill_scores() {
  gemm({.transpose_b = true,
        .m = span_.rows,
        .n = span_.rows,
        .k = v_.state,
        .a = c_rows(),
        .lda = v_.b_stride(),
        .b = b_rows(),
        .ldb = v_.b_stride(),
        .c = part(shared_.scores),
        .ldc = v_.length});
}

void SsdWalk::read_state(const float* rows, const float* state, float* out) const {
  gemm({.m = span_.rows,
        .n = columns_,
        .k = v_.state,
        .a = rows,
        .lda = v_.b_stride(),
        .b = state,
        .ldb = columns_,
        .c = out,
        .ldc = v_.x_stride()});
}

void SsdWalk::carry_state(const float* rows, const float* values, bool carried, float* state) {
  if (carried) decay_state(part(shared_.whole), task_, v_, part(shared_.row), state);
  gemm({.transpose_a = true,
        .m = v_.state,
        .n = columns_,
        .k = span_.rows,
        .a = rows,
        .lda = v_.b_stride(),
        .b = values,
        .ldb = columns_,
        .beta = carried ? 1.0F : 0.0F,
        .c = state,
        .ldc = columns_});
}

void SsdWalk::advance_state(float* state) {
  for (int64_t h = 0; h < task_.heads; ++h) {
    fill_from_start(h);
    fill_x_added(h);
  }
  carry_state(b_rows(), part(shared_.x_added), has_previous_, state);
}

}  // namespace megacpp::runtime::cpu
