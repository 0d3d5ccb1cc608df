// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/axis_link.h"

#include <algorithm>
#include <map>
#include <set>

#include "megacpp/core/base/error.h"

namespace megacpp::fit {
namespace {

using Group = std::vector<int64_t>;  // devices

/// Where the chips of a group stand along each dimension of the slice, sorted.
std::vector<std::set<int64_t>> places_of(const hw::Slice& slice, const Group& group) {
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

double as_double(size_t count) { return static_cast<double>(count); }

/// The same wire for every exchange of n chips, each of which reaches all others directly.
AxisLink behind_a_switch(const hw::Link& link, size_t chips) {
  const Wire one{link.bytes_per_second, link.latency};
  const Wire ring{link.bytes_per_second, link.latency * as_double(chips - 1)};
  return {.name = link.name, .ring = ring, .all_pairs = one, .one_peer = one};
}

// ---- Torus ----

/// The chips of a group along one dimension: a line, or a ring that closes.
struct Line {
  size_t chips = 1;
  int64_t gap = 1;  // hops to the next; as many groups share each wire
  bool closes = false;

  double ports() const { return (closes ? 2.0 : 1.0) / static_cast<double>(gap); }
  double hops_to_farthest() const {
    return (closes ? as_double(chips / 2) : as_double(chips - 1)) * static_cast<double>(gap);
  }
  /// Of what a chip has for all of the line alike, itself included, how much the busiest wire carries: what each half
  /// of a line has for the other crosses its middle; in a ring all go the shorter way, and all wires carry alike.
  double busiest_wire() const {
    const double pairs = closes ? as_double(chips * chips) / 8 : as_double((chips / 2) * (chips - chips / 2));
    return pairs / as_double(chips) * static_cast<double>(gap);
  }
};

std::vector<Line> lines_of(const hw::Slice& slice, const std::vector<std::set<int64_t>>& places) {
  std::vector<Line> lines;
  for (size_t d = 0; d < places.size(); ++d) {
    const auto& along = places[d];
    if (along.size() < 2) continue;
    Line line{.chips = along.size(), .gap = *std::next(along.begin()) - *along.begin()};
    line.closes = slice.wraps(d) && static_cast<int64_t>(line.chips) * line.gap == slice.sizes[d];
    lines.push_back(line);
  }
  return lines;
}

AxisLink in_torus(const hw::Slice& slice, const Group& group) {
  const hw::Link* link = slice.chip.fastest_link();
  if (link == nullptr) refuse_lonely(slice, "slice", "one chip");
  const std::vector<Line> lines = lines_of(slice, places_of(slice, group));
  if (lines.empty()) return behind_a_switch(*link, group.size());  // devices of one chip
  const double devices = static_cast<double>(slice.chip.devices), port = link->port_bytes_per_second();
  AxisLink found{.name = link->name, .ring = {}, .all_pairs = {}, .one_peer = {}};
  double busiest = 0, chips = 1;
  for (const Line& line : lines) {
    found.ring.bytes_per_second += port * line.ports();
    found.ring.latency += link->latency * line.hops_to_farthest();
    busiest = std::max(busiest, line.busiest_wire());
    chips *= as_double(line.chips);
  }
  const double of_chip = std::max(1.0, as_double(group.size()) / chips);  // devices that the group has of one
  const double sharing = devices / of_chip;                               // groups that have some of the same
  found.ring.bytes_per_second /= sharing;
  const double sent = as_double(group.size() - 1) / as_double(group.size());  // of what a device has for all alike
  found.all_pairs = {port * sent / (busiest * devices), found.ring.latency};
  const double gap = static_cast<double>(lines.front().gap);
  found.one_peer = {port / (gap * sharing), link->latency * gap};
  return found;
}

// ---- Nodes ----

int64_t node_of(const hw::Slice& slice, int64_t device) {
  const hw::Sizes place = slice.coordinates(device / slice.chip.devices);
  return place.size() > 1 ? place[1] : 0;
}

struct Spread {
  size_t nodes = 1;
  size_t fewest = 1;  // members on one of them
};

Spread spread_of(const hw::Slice& slice, const Group& group) {
  std::map<int64_t, size_t> members;
  for (const int64_t device : group) ++members[node_of(slice, device)];
  const auto least = std::ranges::min_element(members, {}, [](const auto& node) { return node.second; });
  return {.nodes = members.size(), .fewest = least->second};
}

/// Whether the borders of nodes fall alike on all groups: then the first stands for all.
bool groups_are_alike(const hw::Slice& slice, const ir::Mesh& mesh) {
  const int64_t node = slice.sizes.front() * slice.chip.devices;
  int64_t stride = 1;
  for (size_t axis = mesh.axes().size(); axis-- > 0;) {
    stride *= mesh.axes()[axis].size;
    if (node % stride != 0 && stride % node != 0) return false;
  }
  return true;
}

Spread widest_spread(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes) {
  Spread widest = spread_of(slice, mesh.group(0, axes));
  if (groups_are_alike(slice, mesh)) return widest;
  for (int64_t chip = 1; chip < mesh.chips(); ++chip) {
    if (mesh.index_in_group(chip, axes) != 0) continue;  // each group once
    const Spread other = spread_of(slice, mesh.group(chip, axes));
    if (other.nodes > widest.nodes || (other.nodes == widest.nodes && other.fewest < widest.fewest)) widest = other;
  }
  return widest;
}

AxisLink among_nodes(const hw::Slice& slice, size_t chips, const Spread& spread) {
  const hw::Link* inside = slice.chip.fastest_link();
  if (spread.nodes < 2) {
    if (inside == nullptr) refuse_lonely(slice, "node", "one chip");
    return behind_a_switch(*inside, chips);
  }
  const auto network = std::ranges::find(slice.chip.links, hw::LinkScope::cluster, &hw::Link::scope);
  if (network == slice.chip.links.end()) refuse_lonely(slice, "cluster", "no more chips than a node has");
  const hw::Link& within = inside != nullptr ? *inside : *network;
  const double port = network->bytes_per_second, others = as_double(chips - 1), borders = as_double(spread.nodes - 1);
  const double outside = as_double(chips - spread.fewest) / others, at_home = as_double(spread.fewest - 1) / others;
  const double ring = std::min(as_double(spread.fewest) * port, within.bytes_per_second);
  return {.name = network->name,
          .ring = {inside != nullptr ? ring : as_double(spread.fewest) * port,
                   borders * network->latency + (others - borders) * within.latency},
          .all_pairs = {1 / std::max(outside / port, at_home / within.bytes_per_second), network->latency},
          .one_peer = {port, network->latency}};
}

}  // namespace

const Wire& AxisLink::wire(ops::Transfer::Route route) const {
  switch (route) {
    case ops::Transfer::Route::ring:
      return ring;
    case ops::Transfer::Route::all_pairs:
      return all_pairs;
    case ops::Transfer::Route::one_peer:
      break;
  }
  return one_peer;
}

double AxisLink::seconds(ops::Transfer::Route route, double bytes, double calls) const {
  const Wire& own = wire(route);
  return own.bytes_per_second == 0 ? 0 : bytes / own.bytes_per_second + calls * own.latency;
}

AxisLink link_along(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes) {
  const Group group = mesh.group(0, axes);
  if (group.size() < 2) return {};
  if (slice.chip.slices.shape == hw::SliceShape::torus) return in_torus(slice, group);
  return among_nodes(slice, group.size(), widest_spread(slice, mesh, axes));
}

}  // namespace megacpp::fit
