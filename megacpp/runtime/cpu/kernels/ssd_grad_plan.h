// SPDX-License-Identifier: Apache-2.0
// Where ssd_grad keeps what in its workspace. Offsets are in floats; the parts of a worker are relative to its own
// stretch, worker w's beginning at workers + w * per_worker.
#pragma once

#include <cstdint>

#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/kernels/ssd_tasks.h"

namespace megacpp::runtime::cpu {

struct SsdGradPlan {
  SsdShape shape;

  // Of the whole kernel.
  int64_t da;      // [b, h]
  int64_t db, dc;  // [blocks, b, s, g, n]; only where a group's heads are cut into several blocks
  int64_t workers;
  int64_t workspace_bytes;

  // Of a worker.
  int64_t per_worker;
  int64_t scores, mixing, dmixing, dscores;                    // [i, j]
  int64_t pairs;                                               // lower triangle, packed
  int64_t dt, from_start, added, out, in, suffix, dlog_decay;  // [rows]
  int64_t whole;                                               // [heads]
  int64_t row;                                                 // [columns]
  int64_t x_added, dy_decayed;                                 // [rows, columns]
  int64_t read;                                                // [rows, n]
  int64_t states;  // [chunks, n, columns] at the start of each chunk; the first is zero and never written
  int64_t dstate;  // [n, columns]
  int64_t sums;    // [rows] doubles
};

SsdGradPlan plan_ssd_grad(const ops::NodeView& view, int threads);

}  // namespace megacpp::runtime::cpu
