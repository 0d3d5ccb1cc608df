// SPDX-License-Identifier: Apache-2.0
// Which wires the chips of a mesh axis meet over, and how fast. Chips of the mesh are the devices of the slice in
// order, so the last axis of the mesh joins neighbours.
#pragma once

#include <string>

#include "megacpp/hw/slice.h"
#include "megacpp/ir/mesh.h"

namespace megacpp::fit {

struct AxisLink {
  std::string name;             // "ici", "nvlink", "network"; empty: one chip, which needs none
  double bytes_per_second = 0;  // that each chip of a group can send while all do
  double latency = 0;           // seconds from one to the next
};

/// Of a torus: the ports along every dimension that the group spans, two of them where it closes to a ring, shared by
/// the groups that are between each other. Of nodes: the link inside one; across nodes the network ports of the members
/// a node has, but not more than the link inside carries. E1602 where the chip's file names no such link.
AxisLink link_along(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes);

}  // namespace megacpp::fit
