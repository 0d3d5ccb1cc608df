// SPDX-License-Identifier: Apache-2.0
// A collective in two parts, so that a program computes while tensors move. `collective_start` has the operands and
// attributes of the collective named by its attribute `op`, and results that nobody may read but one `collective_done`,
// which has them as operands and hands them on in place when they are whole. From start to done the operands must not
// change: memory/buffers keeps them.
#pragma once

#include <string_view>

#include "megacpp/core/ir/graph.h"

namespace megacpp::ops {

inline constexpr std::string_view kStartOp = "collective_start";
inline constexpr std::string_view kDoneOp = "collective_done";

/// The op that a node carries out: the one it starts, otherwise its own.
inline std::string_view started_op(const ir::Node& node) {
  return node.op == kStartOp ? std::string_view(node.attrs.text("op")) : std::string_view(node.op);
}

}  // namespace megacpp::ops
