// SPDX-License-Identifier: Apache-2.0
// Nodes between chips as calls of a transport: what moves and how, from types and attributes alone. Addresses, groups
// and peers are added once a chip is loaded; the memory plan needs none of them to ask how much workspace a call takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "megacpp/machine/collectives/transport.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime {

/// None for what a chip answers by itself (shard_slice, shard_index) and for collective_done; for exchange_sum a send
/// and a receive; otherwise one.
std::vector<collectives::Call> calls_of(std::string_view op, const ops::NodeView& view);

/// What `transport` wants for the node, from its start until it is done.
int64_t workspace_bytes(const collectives::Transport& transport, std::string_view op, const ops::NodeView& view);

}  // namespace megacpp::runtime
