// SPDX-License-Identifier: Apache-2.0
// What a chip has alive at one node of a program: how many bytes, what they are for, and the largest of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/memory/buffers.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::memory {

struct Contents {
  std::vector<Item> items;
  std::vector<Allocation> largest;  // largest first, at most 20
  int64_t bytes = 0;                // of all items, without alignment
};

/// State on the device, and the temporaries of a program that are alive at the node.
Contents contents_at(const std::vector<StateSlot>& state, const Buffers& buffers, uint32_t node,
                     const schedule::Target& target);

/// Temporary bytes alive on the device at each node, with alignment: the most of them is ProgramPlan::lower_bound.
std::vector<int64_t> alive_by_node(const ir::Graph& graph, const Buffers& buffers, const schedule::Target& target);

}  // namespace megacpp::memory
