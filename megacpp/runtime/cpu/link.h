// SPDX-License-Identifier: Apache-2.0
// What ties one chip's program to the others: where the chip stands in the mesh and its end of the transport. Turns
// nodes between chips into calls whose addresses and groups are resolved before step 0.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "megacpp/collectives/communicator.h"
#include "megacpp/ir/graph.h"
#include "megacpp/ir/mesh.h"

namespace megacpp::runtime::cpu {

struct Link {
  const ir::Mesh& mesh;
  int64_t chip;
  collectives::Communicator& communicator;
};

struct Exchange {
  std::function<void()> run;
  /// What is still under way when run() returns: a send, until something overwrites its operand or the step ends. May
  /// be empty.
  std::function<void()> drain = {};
};

/// The node as something to run. Buffers must stay where they are.
Exchange prepare_collective(const ir::Graph& graph, const ir::Node& node, std::span<std::byte* const> operands,
                            std::span<std::byte* const> results, const Link& link);

}  // namespace megacpp::runtime::cpu
