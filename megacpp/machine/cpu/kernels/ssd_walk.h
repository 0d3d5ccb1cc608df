// SPDX-License-Identifier: Apache-2.0
// What ssd and ssd_grad share of walking a task chunk by chunk: where the chunk stands in the operands, the decays of
// its heads, and the products that serve all heads of the task at once. A run derives from it and adds its own steps.
#pragma once

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/kernels/ssd_tasks.h"

namespace megacpp::runtime::cpu {

/// Offsets of the shared parts in a worker's scratch, in floats.
struct SsdWalkPlan {
  int64_t scores, mixing;         // [i, j]; of mixing only the lower triangle is ever written, the rest is zero
  int64_t pairs;                  // lower triangle, packed
  int64_t dt, from_start, added;  // [rows]
  int64_t whole;                  // [heads]
  int64_t row;                    // [columns]
  int64_t x_added;                // [rows, columns]
  int64_t sums;                   // [rows] doubles
};

SsdWalkPlan plan_ssd_walk(const SsdShape& v, ScratchPlan& scratch);

class SsdWalk {
 public:
  enum Operand : size_t { kX, kDt, kA, kB, kC, kDy };

 protected:
  SsdWalk(const SsdShape& v, const SsdWalkPlan& shared, const KernelArgs& args, int64_t index, float* scratch);

  void enter(int64_t chunk);

  float* part(int64_t offset) const { return scratch_ + offset; }
  const float* b_rows() const { return args_.in(kB) + span_.b; }
  const float* c_rows() const { return args_.in(kC) + span_.b; }
  int64_t head_at(int64_t h) const { return span_.x + h * v_.head_dim; }  // in x and y

  void fill_dt(int64_t h);
  void fill_pairs(int64_t h);
  /// from_start of one head, and its whole.
  void fill_from_start(int64_t h);
  /// x_added: rows of x times what they leave in the state at the chunk's end, less their B.
  void fill_x_added(int64_t h);

  /// scores = C B^T
  void fill_scores();
  /// out [rows, columns] = rows [rows, n] state; out has the strides of x, rows those of B.
  void read_state(const float* rows, const float* state, float* out) const;
  /// state = whole * state + rows^T values [rows, columns], or only the product where nothing is `carried`.
  void carry_state(const float* rows, const float* values, bool carried, float* state);
  /// From the state at this chunk's start, in place, to the one at the next chunk's.
  void advance_state(float* state);

  const SsdShape& v_;
  const KernelArgs& args_;
  const SsdTask task_;
  const int64_t columns_;  // of a state: heads of the task, p
  int64_t chunk_ = 0;
  bool has_previous_ = false, has_next_ = false;
  SsdSpan span_ = {};

 private:
  SsdDecay decay(int64_t h) const;

  const SsdWalkPlan& shared_;
  float* scratch_;
};

}  // namespace megacpp::runtime::cpu
