// SPDX-License-Identifier: Apache-2.0
// A general product as calls of cuBLASLt on strided matrices, without copies: dimensions that lie evenly behind one
// another become one, batch dimensions a stride or a loop of calls. What no such call can express (elements of both
// sides strided, contracted dimensions in different orders) is left as lists of axes for a kernel of our own. A
// function of the node alone: nothing here needs a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

/// Elements between neighbours on both sides and in the result; 0 where the axis is not theirs.
struct DotAxis {
  int64_t size = 1;
  int64_t lhs = 0, rhs = 0, out = 0;
  bool operator==(const DotAxis&) const = default;
};

/// Axes major to minor, none of size 1, neighbours joined where that is possible.
struct DotAxes {
  std::vector<DotAxis> batch, m, n, k;
};

/// One call: the bytes from the beginnings of lhs, rhs and result.
struct DotCall {
  int64_t lhs = 0, rhs = 0, out = 0;
};

/// The library's `a` is our rhs and its `b` our lhs: its columns are our rows.
struct DotCalls {
  LtProblem problem;
  std::vector<DotCall> calls;
};

struct DotPlan {
  DotAxes axes;
  std::optional<DotCalls> calls;  // none: a kernel of our own
};

/// Of a dot or a mixed_dot.
DotAxes dot_axes(const ops::NodeView& view);

DotPlan plan_dot(const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
