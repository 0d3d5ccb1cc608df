// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/islands.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/program/plan/planned_recipe.h"

namespace megacpp::fit {
namespace {

/// "model" of "model.1".
std::string layout_axis(const std::string& name) { return name.substr(0, name.find('.')); }

/// The node of a chip; a torus is one domain.
int64_t domain_of(const hw::Slice& slice, int64_t device) {
  if (slice.chip.slices.shape == hw::SliceShape::torus) return 0;
  const hw::Sizes place = slice.coordinates(device / slice.chip.devices);
  return place.size() > 1 ? place[1] : 0;
}

/// Of the group that spans most: where a degree does not divide a node, some groups stay inside and others do not.
int64_t most_domains(const hw::Slice& slice, const ir::Mesh& mesh, const ir::Axes& axes) {
  size_t most = 1;
  for (int64_t chip = 0; chip < mesh.chips(); ++chip) {
    if (mesh.index_in_group(chip, axes) != 0) continue;  // each group once
    std::set<int64_t> domains;
    for (const int64_t member : mesh.group(chip, axes)) domains.insert(domain_of(slice, member));
    most = std::max(most, domains.size());
  }
  return static_cast<int64_t>(most);
}

std::string where_text(const hw::Slice& slice, int64_t domains) {
  if (domains > 1) return fmt::format("across {} nodes", domains);
  if (slice.chip.is_virtual()) return "inside this machine";
  if (slice.chip.slices.shape == hw::SliceShape::torus) return "inside the slice";
  return fmt::format("inside a node of {}", slice.chip.slices.host[0]);
}

struct IslandKey {
  std::string_view axis;
  const char* key;
  int64_t recipe::Layout::*degree;
};
constexpr std::array<IslandKey, 2> kInsideKeys = {
    {{"model", "layout.tensor_parallel", &recipe::Layout::tensor_parallel},
     {"expert", "layout.expert_parallel", &recipe::Layout::expert_parallel}}};

bool stays_inside(const ir::Mesh& mesh, const hw::Slice& slice, const std::string& axis) {
  for (const AxisIsland& island : islands_of(slice, mesh))
    if (island.axis == axis && island.crosses()) return false;
  return true;
}

/// The largest smaller degree that stays inside, whose chips share the batch instead.
std::optional<plan::Changes> nearest_inside(const recipe::Recipe& recipe, const hw::Slice& slice,
                                            const IslandKey& key) {
  const int64_t degree = recipe.layout.*key.degree;
  for (int64_t fewer = degree / 2; fewer >= 1; --fewer) {
    if (degree % fewer != 0) continue;
    const int64_t data = recipe.layout.data_parallel * (degree / fewer);
    plan::Changes changes = {{key.key, std::to_string(fewer)}, {"layout.data_parallel", std::to_string(data)}};
    const std::optional<plan::Plan> changed = plan::changed_plan(recipe, plan::overrides_of(changes));
    if (changed && stays_inside(changed->parallel.mesh, slice, std::string(key.axis))) return changes;
  }
  return std::nullopt;
}

bool names_axis(const std::string& axes, const std::string& axis) {
  for (size_t begin = 0; begin <= axes.size();) {
    const size_t end = std::min(axes.find('+', begin), axes.size());
    if (layout_axis(axes.substr(begin, end - begin)) == axis) return true;
    begin = end + 1;
  }
  return false;
}

Crossing crossing_of(const AxisIsland& island, const hw::Slice& slice, const StepTime& time) {
  Crossing crossing{.island = island, .key = {}, .inside_link = {}};
  const hw::Link* const inside = slice.chip.fastest_link();
  if (inside != nullptr) crossing.inside_link = inside->name;
  for (const LinkTime& link : time.links) {
    if (!names_axis(link.axes, island.axis)) continue;
    crossing.seconds += link.seconds;
    if (inside == nullptr) continue;
    crossing.inside_seconds +=
        static_cast<double>(link.bytes) / inside->bytes_per_second + static_cast<double>(link.calls) * inside->latency;
  }
  return crossing;
}

}  // namespace

std::vector<AxisIsland> islands_of(const hw::Slice& slice, const ir::Mesh& mesh) {
  std::vector<AxisIsland> islands;
  for (size_t first = 0; first < mesh.axes().size();) {
    const std::string axis = layout_axis(mesh.axes()[first].name);
    ir::Axes axes;
    for (; first < mesh.axes().size() && layout_axis(mesh.axes()[first].name) == axis; ++first)
      axes.push_back(static_cast<ir::AxisId>(first));
    const int64_t domains = most_domains(slice, mesh, axes);
    islands.push_back({.axis = axis,
                       .size = mesh.size(axes),
                       .link = link_along(slice, mesh, axes),
                       .domains = domains,
                       .where = where_text(slice, domains)});
  }
  return islands;
}

std::vector<Crossing> crossings_of(const recipe::Recipe& recipe, const hw::Slice& slice, const ir::Mesh& mesh,
                                   const StepTime& time) {
  std::vector<Crossing> crossings;
  for (const AxisIsland& island : islands_of(slice, mesh)) {
    const auto key = std::ranges::find(kInsideKeys, island.axis, &IslandKey::axis);
    if (!island.crosses() || key == kInsideKeys.end()) continue;
    Crossing crossing = crossing_of(island, slice, time);
    crossing.key = key->key;
    crossing.nearest = nearest_inside(recipe, slice, *key);
    crossings.push_back(std::move(crossing));
  }
  return crossings;
}

std::string to_text(const Crossing& crossing) {
  const AxisIsland& island = crossing.island;
  std::string text =
      fmt::format("{} {} leaves the fast domain: {} is {} over {}; its collectives take {} of a step", crossing.key,
                  island.size, island.axis, island.where, island.link.name, base::human_seconds(crossing.seconds));
  if (!crossing.inside_link.empty())
    text += fmt::format(", over {} {}", crossing.inside_link, base::human_seconds(crossing.inside_seconds));
  if (!crossing.nearest) return text + ". No smaller degree is legal with its chips sharing the batch";
  return text + fmt::format(". The nearest layout inside: {}", fmt::join(plan::overrides_of(*crossing.nearest), " "));
}

}  // namespace megacpp::fit
