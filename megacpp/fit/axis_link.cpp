// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/axis_link.h"

#include <algorithm>
#include <set>

#include "megacpp/base/error.h"

namespace megacpp::fit {
namespace {

/// Where the chips of the group with chip 0 stand along each dimension of the slice, sorted.
std::vector<std::set<int64_t>> places_of(const hw::Slice& slice, const std::vector<int64_t>& group) {
  std::vector<std::set<int64_t>> places(slice.sizes.size());
  for (const int64_t device : group) {
    const hw::Sizes at = slice.coordinates(device / slice.chip.devices);
    for (size_t d = 0; d < at.size(); ++d) places[d].insert(at[d]);
  }
  return places;
}

/// A chip's file need not name links: alone it has nobody to talk to.
[[noreturn]] void refuse_lonely(const hw::Slice& slice, const std::string& reach, const std::string& next) {
  base::raise(base::Code::E1602, {.where = slice.name,
                                  .got = "several chips, and no link between them",
                                  .wanted = "a link of scope " + reach + " in " + slice.chip.origin,
                                  .next = "add one, or take " + next});
}

AxisLink in_torus(const hw::Slice& slice, const std::vector<std::set<int64_t>>& places) {
  const hw::Link* link = slice.chip.fastest_link();
  if (link == nullptr) refuse_lonely(slice, "slice", "one chip");
  AxisLink found{.name = link->name};
  for (size_t d = 0; d < places.size(); ++d) {
    const auto& along = places[d];
    if (along.size() < 2) continue;
    const int64_t gap = *std::next(along.begin()) - *along.begin();
    const bool is_ring = slice.wraps(d) && static_cast<int64_t>(along.size()) * gap == slice.sizes[d];
    found.bytes_per_second += link->port_bytes_per_second() * (is_ring ? 2.0 : 1.0) / static_cast<double>(gap);
    found.latency = std::max(found.latency, link->latency * static_cast<double>(gap));
  }
  if (found.bytes_per_second == 0) found.bytes_per_second = link->bytes_per_second;  // devices of one chip
  return found;
}

AxisLink among_nodes(const hw::Slice& slice, const std::vector<std::set<int64_t>>& places, size_t members) {
  const hw::Link* inside = slice.chip.fastest_link();
  const size_t nodes = places.size() > 1 ? places[1].size() : 1;
  if (nodes < 2) {
    if (inside == nullptr) refuse_lonely(slice, "node", "one chip");
    return {inside->name, inside->bytes_per_second, inside->latency};
  }
  const auto network = std::find_if(slice.chip.links.begin(), slice.chip.links.end(),
                                    [](const hw::Link& link) { return link.scope == hw::LinkScope::cluster; });
  if (network == slice.chip.links.end()) refuse_lonely(slice, "cluster", "no more chips than a node has");
  const double ports = static_cast<double>(members / nodes);
  const double carried = ports * network->bytes_per_second;
  return {network->name, inside ? std::min(carried, inside->bytes_per_second) : carried, network->latency};
}

}  // namespace

AxisLink link_along(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes) {
  const std::vector<int64_t> group = mesh.group(0, axes);
  if (group.size() < 2) return {};
  const auto places = places_of(slice, group);
  return slice.chip.slices.shape == hw::SliceShape::torus ? in_torus(slice, places)
                                                          : among_nodes(slice, places, group.size());
}

}  // namespace megacpp::fit
