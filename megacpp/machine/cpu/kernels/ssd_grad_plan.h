// SPDX-License-Identifier: Apache-2.0
// Where ssd_grad keeps what in its workspace. Offsets are in floats; the parts of a worker are relative to its own
// stretch, worker w's beginning at workers + w * per_worker.
#pragma once

#include <cstdint>

#include "megacpp/machine/cpu/kernels/ssd_walk.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {

struct SsdGradPlan : SsdWalkPlan {
  SsdShape shape;

  // Of the whole kernel.
  int64_t da;      // [b, h]
  int64_t db, dc;  // [blocks, b, s, g, n]; only where a group's heads are cut into several blocks
  int64_t workers;
  int64_t workspace_bytes;

  // Of a worker, beside what every walk has.
  int64_t per_worker;
  int64_t dmixing, dscores;             // [i, j]
  int64_t out, in, suffix, dlog_decay;  // [rows]
  int64_t dy_decayed;                   // [rows, columns]
  int64_t read;                         // [rows, n]
  int64_t states;  // [chunks, n, columns] at the start of each chunk; the first is zero and never written
  int64_t dstate;  // [n, columns]
};

SsdGradPlan plan_ssd_grad(const ops::NodeView& view, int threads);

}  // namespace megacpp::runtime::cpu
