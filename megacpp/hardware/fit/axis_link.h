// SPDX-License-Identifier: Apache-2.0
// Which wires the chips of a mesh axis meet over, and what an exchange between them costs there: counted by what
// crosses the busiest wire, since not all exchanges load the same ones. Chips of the mesh are the devices of the slice
// in order, so the last axis of the mesh joins neighbours.
#pragma once

#include <string>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::fit {

/// What every chip of a group gets of the wires while all groups exchange alike.
struct Wire {
  double bytes_per_second = 0;  // that a chip sends, whatever wires they go over
  double latency = 0;           // seconds of one call beside its bytes
};

struct AxisLink {
  std::string name;  // the slowest that is crossed: "ici", "nvlink", "network"; empty: one chip, which needs none
  Wire ring;
  Wire all_pairs;
  Wire one_peer;

  const Wire& wire(ops::Transfer::Route route) const;
  /// Of `calls` calls that send so many bytes together; 0 without a link.
  double seconds(ops::Transfer::Route route, double bytes, double calls = 1) const;
};

/// Of the group that spans most nodes. E1602 where the chip's file names no such link.
///
/// Nodes: a ring crosses every border between nodes once, over the network ports of all members a node has (NCCL opens
/// a ring for each), but not faster than the link inside; a turn pays the network's latency at borders alone. Of all
/// pairs a chip sends what other nodes get through its own port, the rest over the link inside, both at once. A peer
/// may be on another node, and then one port carries all.
///
/// Torus: a ring uses the ports along every dimension that the group spans, two of them where it closes; of all pairs
/// the middle of each line, or every wire of a closed one, carries what the two sides have for each other; a peer is
/// reached through one port. Wires are shared by the groups that are between each other.
AxisLink link_along(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes);

}  // namespace megacpp::fit
