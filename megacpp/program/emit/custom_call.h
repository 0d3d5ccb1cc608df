// SPDX-License-Identifier: Apache-2.0
// Composite ops that a plugin runs as one call of its own, instead of the op's decomposition: one record per op. A
// backend asks `takes` when it decides what stays whole; the module's writer calls `write` for what did.
#pragma once

#include <span>
#include <string_view>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::emit {

struct CustomCall {
  std::string_view op;  // "attention"
  /// Whether the call computes this node, on a plugin that has it.
  base::Decision (*takes)(const ops::NodeView& view);
  /// One value for each result of the op; only for nodes it takes.
  ops::HloResults (*write)(ops::HloWriter& w, const ops::HloArgs& args);
};

std::span<const CustomCall> custom_calls();

/// Null for an op without one.
const CustomCall* find_custom_call(std::string_view op);

/// Whether XLA gets a node as it is, on a plugin that has these calls or none of them.
base::Decision is_emitted_whole(std::string_view op, const ops::NodeView& view, bool has_custom_calls);

}  // namespace megacpp::emit
