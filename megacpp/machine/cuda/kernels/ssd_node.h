// SPDX-License-Identifier: Apache-2.0
// What ssd and ssd_grad read alike from their nodes.
#pragma once

#include <optional>

#include "megacpp/core/base/decision.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/ssd_params.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

struct SsdNode {
  enum Operand : size_t { kX, kDt, kA, kB, kC, kDy };

  SsdSizes sizes;
  Floats x, dt, a, b, c;
  std::optional<size_t> positions;  // operand

  SsdParams params(const Launch& l, const FloatArray& y) const {
    return {.x = x.of(l.operands),
            .dt = dt.of(l.operands),
            .a = a.of(l.operands),
            .b = b.of(l.operands),
            .c = c.of(l.operands),
            .positions = positions ? l.operands[*positions] : 0,
            .y = y,
            .sizes = sizes};
  }
  int64_t rows() const { return sizes.batch * sizes.seq; }
  bool is_empty() const { return rows() * sizes.heads * sizes.head_dim == 0; }
  /// Whether ssd_mma.cu takes it.
  bool is_for_tensor_cores() const {
    return x.is_bf16 && b.is_bf16 && c.is_bf16 && sizes.head_dim == kSsdHeadDim && sizes.state == kSsdState &&
           !is_empty();
  }
};

SsdNode ssd_node(const ops::NodeView& view);

/// Of ssd_grad: dy, and the results.
struct SsdGradNode {
  SsdNode forward;
  Floats dy;
  Floats dx, ddt, da, db, dc;

  bool is_for_tensor_cores() const { return forward.is_for_tensor_cores() && dy.is_bf16; }
};

SsdGradNode ssd_grad_node(const ops::NodeView& view);

/// Larger states are left to the decomposition.
base::Decision supports_ssd(const ops::NodeView& view);

/// Of the variants of ssd_plain.cu: elements of a state's row in each lane of a warp.
int64_t ssd_lane_elements(const SsdSizes& sizes);

/// Of the walks by tensor cores: heads of a block, which share the B and C of their group.
int ssd_block_heads(const SsdSizes& sizes);

}  // namespace megacpp::runtime::cuda
