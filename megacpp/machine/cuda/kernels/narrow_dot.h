// SPDX-License-Identifier: Apache-2.0
// Products of a wide bf16 side with a few columns in f32, as routers have: a function of the node alone says which they
// are. What is wide is read or written once, and nothing is converted on the way.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

struct NarrowDot {
  enum class Kind : uint8_t {
    rows,    // x[rows, width] w[width, columns]: mixed_dot
    sums,    // x[rows, width]^T y[rows, columns]: mixed_dot
    spread,  // y[rows, columns] w[width, columns]^T, in bf16 and perhaps with an addend: dot
  };
  Kind kind;
  int64_t rows, width, columns;
  bool has_addend = false;

  /// Columns of the variant that takes it: 8 or 16.
  int64_t padded_columns() const { return columns <= 8 ? 8 : 16; }
  /// Rows that a block of `sums` and `spread` takes, and how many blocks there are so.
  int64_t part_rows() const;
  int64_t parts() const { return (rows + part_rows() - 1) / part_rows(); }
  int64_t workspace_bytes() const;
  /// Of a block of `rows`, which keeps all weights.
  int64_t shared_bytes() const;
  bool operator==(const NarrowDot&) const = default;
};

/// Of a dot or a mixed_dot; nothing where these kernels do not take it.
std::optional<NarrowDot> narrow_dot(const ops::NodeView& view);

Prepared prepare_narrow_dot(const NarrowDot& dot, Toolbox& toolbox);

}  // namespace megacpp::runtime::cuda
