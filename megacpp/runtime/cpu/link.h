// SPDX-License-Identifier: Apache-2.0
// What ties one chip's program to the others: where the chip stands in the mesh and its end of the transport. Turns
// nodes between chips into calls whose addresses and groups are resolved before step 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  /// What is still in flight when run() returns: a send, until something overwrites its operand or the step ends. May
  /// be empty.
  std::function<void()> drain = {};
};

/// The buffers of a node; they must stay where they are.
struct NodeBuffers {
  std::span<std::byte* const> operands = {};
  std::span<std::byte* const> results = {};
  std::byte* workspace = nullptr;  // as the transport wants it
};

/// A program whose nodes between chips are prepared in their order: a done finds what was started for it.
class LinkedProgram {
 public:
  /// Both must outlive what is prepared.
  LinkedProgram(const ir::Graph& graph, const Link& link) : graph_(graph), link_(link) {}

  /// The node as something to run.
  Exchange prepare(const ir::Node& node, const NodeBuffers& buffers);

 private:
  std::shared_ptr<collectives::Call> bind(collectives::Call call, const ir::Node& node, const NodeBuffers& buffers);
  Exchange prepare_exchange_sum(const ir::Node& node, const NodeBuffers& buffers);
  Exchange prepare_done(const ir::Node& node) const;

  const ir::Graph& graph_;
  const Link& link_;
  /// By first result of a start; shared by what starts and what finishes the call.
  std::map<uint32_t, std::shared_ptr<collectives::Ticket>> tickets_;
};

}  // namespace megacpp::runtime::cpu
