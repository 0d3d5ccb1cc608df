// SPDX-License-Identifier: Apache-2.0
// How ssd and ssd_grad cut their work. A task is one sequence and a block of heads of one group, walked chunk by
// chunk. States are kept as [n, heads of the block, p], so that products with B and C serve all heads of the block at
// once; only the products inside a chunk are made head by head.
#pragma once

#include <cstdint>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {

struct SsdShape {
  int64_t batch, seq, heads, head_dim, groups, state;  // batch: all leading dimensions
  int64_t length;                                      // positions in a chunk; the last one may be shorter
  int64_t chunks;
  int64_t head_blocks;  // blocks a group's heads are cut into
  size_t positions;     // operand [batch, seq], places of tokens in documents; 0: absent

  int64_t heads_per_group() const { return heads / groups; }
  int64_t block_heads() const { return (heads_per_group() + head_blocks - 1) / head_blocks; }
  int64_t block_columns() const { return block_heads() * head_dim; }
  int64_t tasks() const { return batch * groups * head_blocks; }
  int64_t x_stride() const { return heads * head_dim; }  // from position to position in x, y
  int64_t b_stride() const { return groups * state; }    // and in B, C
};

SsdShape ssd_shape(const ops::NodeView& view, int threads);

struct SsdTask {
  int64_t batch, group, block;
  int64_t head;   // first
  int64_t heads;  // how many
};

SsdTask ssd_task(const SsdShape& v, int64_t index);

/// One chunk of one task: where it stands in the operands.
struct SsdSpan {
  int64_t rows;  // positions
  int64_t row;   // the first of them in all sequences
  int64_t x;     // in x and y, first head of the task
  int64_t dt;    // in dt, first head of the task
  int64_t b;     // in B and C
};

SsdSpan ssd_span(const SsdShape& v, const SsdTask& task, int64_t chunk);

/// The decays of one head in one chunk, from dt (a position every `stride`) and the head's rate. `sums` is scratch
/// of `rows` doubles: differences of log decays are taken in double, since they cancel. `positions` [rows] are places
/// of tokens in documents; null: all are of one that began before. Between documents everything has decayed to zero.
struct SsdDecay {
  const float* dt;
  int64_t stride;
  float rate;
  int64_t rows;
  double* sums;
  const int32_t* positions;
};
/// from_start [rows]: from the chunk's start to each position.
void decay_from_start(const SsdDecay& d, float* from_start);
/// added [rows]: dt times the decay from each position to the chunk's end.
void decay_of_added(const SsdDecay& d, float* added);
/// pairs: row i holds the decays from 0..i to i; rows stand packed, row i at i (i + 1) / 2.
void decay_of_pairs(const SsdDecay& d, float* pairs);

inline int64_t packed_row(int64_t i) { return i * (i + 1) / 2; }

/// out[t, :] = factor[t] * in[t, :], rows of n.
void scale_rows(const float* factor, const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t rows,
                int64_t n);
/// state [n, heads, p] *= whole [heads]; `row` is scratch of heads * p.
void decay_state(const float* whole, const SsdTask& task, const SsdShape& v, float* row, float* state);

}  // namespace megacpp::runtime::cpu
