// SPDX-License-Identifier: Apache-2.0
// How a reduction is spread over blocks: a function of the node alone.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/reduce_params.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

struct ReducePlan {
  ReduceParams params;  // without addresses
  bool folds_rows;      // neighbours in memory are folded; else they are kept
  int64_t vector;       // elements of an access
  int64_t blocks;       // of the first pass, for each part

  int64_t workspace_bytes() const {
    return params.parts > 1 ? params.parts * static_cast<int64_t>(params.kept) * 4 : 0;
  }
};

ReducePlan plan_reduce(const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
