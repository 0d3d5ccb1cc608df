// SPDX-License-Identifier: Apache-2.0
// A tensor on its way between the memory of a device and another tier (ir/memory_tier.h), in two parts, so that a
// program computes meanwhile. `copy_start` has a result in the memory that its attribute `to` names, which nobody may
// read but one `copy_done`; that hands it on in place once it is there. Until then the operand must not change:
// memory/buffers keeps it. An input that stands in another tier than the device's has the attribute `memory`: its name.
#pragma once

#include <string_view>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::ops {

inline constexpr std::string_view kCopyStartOp = "copy_start";
inline constexpr std::string_view kCopyDoneOp = "copy_done";

/// The attribute of a start to that tier.
ir::Attrs copy_to(ir::Tier tier);
/// Says of an input that it stands there.
void place_input(ir::Node& input, ir::Tier tier);

/// The memory that holds the results of this node, as far as the node itself says it: a copy_done hands on its operand.
ir::Tier tier_of(const ir::Node& node);
/// The same of a value.
ir::Tier tier_of(const ir::Graph& graph, ir::ValueId value);

}  // namespace megacpp::ops
