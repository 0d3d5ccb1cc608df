// SPDX-License-Identifier: Apache-2.0
// Optimizer state in the host's memory, streamed through the device: in a program whose order is settled, every state
// of the role is fetched before its first reader and stored back behind its writer, by copies that run beside the work
// of the states before and after it. The program computes the same.
//
// The order of copies is decided here. State that one node reads first is a unit; units follow each other as those
// nodes do. A unit is fetched while at most so many bytes of units before it are worked on as the two largest have, at
// least while the one before is, and is stored by the time as many bytes behind it are: between fetch and store that is
// the ring of buffers that states pass through on the device, temporaries of the plan like any other. What is fetched
// is changed in place.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::schedule {

ir::Graph offload_state(const ir::Graph& graph, ir::Tier tier);

}  // namespace megacpp::schedule
