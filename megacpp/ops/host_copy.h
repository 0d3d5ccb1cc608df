// SPDX-License-Identifier: Apache-2.0
// A tensor on its way between the memory of a device and that of its host, in two parts, so that a program computes
// meanwhile. `copy_start` has a result in the memory that its attribute `to` names, which nobody may read but one
// `copy_done`; that hands it on in place once it is there. Until then the operand must not change: memory/buffers keeps
// it. An input that stands in the host's memory has the attribute `memory: host`.
#pragma once

#include <string_view>

#include "megacpp/ir/graph.h"

namespace megacpp::ops {

inline constexpr std::string_view kCopyStartOp = "copy_start";
inline constexpr std::string_view kCopyDoneOp = "copy_done";

/// Values of the attribute `to` of a start.
inline constexpr std::string_view kToHost = "host", kToDevice = "device";

/// Of inputs; absent: the device's.
inline constexpr std::string_view kMemoryAttr = "memory";

/// Whether the results of this node are in the host's memory, as far as the node itself says it: a copy_done hands on
/// what it was given.
inline bool is_in_host_memory(const ir::Node& node) {
  if (node.op == ir::kInputOp) return node.attrs.text(kMemoryAttr, kToDevice) == kToHost;
  return node.op == kCopyStartOp && node.attrs.text("to") == kToHost;
}
/// The same of a value.
inline bool is_in_host_memory(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node& node = graph.producer(value);
  return is_in_host_memory(node.op == kCopyDoneOp ? graph.producer(node.operands[0]) : node);
}

}  // namespace megacpp::ops
