// SPDX-License-Identifier: Apache-2.0
// One chip's nodes between chips on a GPU: calls of its communicator, ordered on its stream, and what the chip does by
// itself around them. Everything that is prepared only enqueues and may be captured into a graph.
// Who runs a chip must know:
// - the context of the GPU is current on its thread;
// - the nodes of a program are prepared in their order, one program after the other;
// - a send stays in flight until its drain() has been enqueued: before its operand is overwritten, and before a capture
//   or a step ends;
// - a host that waits for the stream does so by wait().
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cuda/toolbox.h"
#include "megacpp/machine/runtime/chip_device.h"
#include "megacpp/machine/runtime/linked_program.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {

struct DeviceLinkOptions {
  const ir::Mesh& mesh;
  int64_t chip;
  collectives::Communicator& communicator;  // of make_device_world()
  const Driver& driver;
  Toolbox& toolbox;
  Stream* stream;  // of the chip: its kernels run there, and calls are ordered among them
};

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  /// The graph outlives what is prepared. The addresses are those of the device.
  virtual DeviceCall prepare(const ir::Graph& graph, const BoundNode& bound) = 0;
  /// Returns when the stream has done all it holds. E3101, E3102 where another process keeps it waiting.
  virtual void wait() = 0;
};

/// What the options refer to outlives the link.
std::unique_ptr<DeviceLink> make_device_link(const DeviceLinkOptions& options);

/// What a node between chips wants of its chip's plan, for a mesh of so many chips whose processes `transport` joins.
int64_t device_link_workspace(std::string_view op, const ops::NodeView& view, int64_t chips,
                              const collectives::Transport& transport);

}  // namespace megacpp::runtime::cuda
