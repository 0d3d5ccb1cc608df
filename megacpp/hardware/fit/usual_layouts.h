// SPDX-License-Identifier: Apache-2.0
// The layouts that people try first: FSDP over all chips, tensor parallelism in a node with data parallelism around
// it, expert parallelism with FSDP, and Megatron's three dimensions. A search compiles them whatever it estimates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "megacpp/hardware/fit/candidates.h"
#include "megacpp/hardware/hw/slice.h"

namespace megacpp::fit {

/// Devices that a node, or a host of a torus, has.
int64_t chips_of_node(const hw::Slice& slice);

/// Indices of those among `layouts`, which are of one number of chips, ascending and each once; a node has `node`
/// chips. Only degrees and ZeRO are looked at; of the levels of ZeRO the highest there is, which is FSDP, and with
/// tensor parallelism the lowest too.
std::vector<size_t> usual_layouts(std::span<const LayoutChoice> layouts, int64_t node);

}  // namespace megacpp::fit
