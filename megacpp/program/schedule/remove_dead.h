// SPDX-License-Identifier: Apache-2.0
// Drops nodes that no output depends on. Inputs stay: they are the program's contract. So do nodes without results,
// such as send: they run for their effect.
#pragma once

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

ir::Graph remove_dead(const ir::Graph& graph);

}  // namespace megacpp::schedule
