// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/placement.h"

#include <numeric>
#include <string_view>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

// "model" of "model.0".
std::string_view layout_axis(std::string_view name) { return name.substr(0, name.find('.')); }

// Later is closer together.
int closeness(std::string_view name) {
  const std::string_view axis = layout_axis(name);
  return axis == "model" ? 2 : axis == "expert" ? 1 : 0;
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<int64_t> dealing_order(const ir::Mesh& mesh) {
  ir::Axes axes;  // major first
  for (int wanted = 0; wanted <= 2; ++wanted)
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
      if (closeness(mesh.axes()[axis].name) == wanted) axes.push_back(static_cast<ir::AxisId>(axis));
  return mesh.group(0, axes);
}

std::vector<int64_t> owners_of(const Dealing& dealing) {
  MEGACPP_CHECK(dealing.processes >= 1 && dealing.chips % dealing.processes == 0)
      << dealing.chips << " chips over " << dealing.processes << " processes";
  std::vector<int64_t> order = dealing.order;
  if (order.empty()) {
    order.resize(static_cast<size_t>(dealing.chips));
    std::iota(order.begin(), order.end(), int64_t{0});
  }
  MEGACPP_CHECK(static_cast<int64_t>(order.size()) == dealing.chips) << order.size() << " chips dealt";
  std::vector<int64_t> owners(order.size());
  const int64_t share = dealing.chips / dealing.processes;
  for (size_t i = 0; i < order.size(); ++i) owners[static_cast<size_t>(order[i])] = static_cast<int64_t>(i) / share;
  return owners;
}

std::string placement_text(const ir::Mesh& mesh, const std::vector<int64_t>& owners) {
  std::vector<std::string> inside, across;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    const auto id = static_cast<ir::AxisId>(axis);
    bool crosses = false;
    for (int64_t chip = 0; chip < mesh.chips(); ++chip)
      for (const int64_t member : mesh.group(chip, {id}))
        crosses |= owners[static_cast<size_t>(member)] != owners[static_cast<size_t>(chip)];
    (crosses ? across : inside).push_back(mesh.axes()[axis].name);
  }
  std::string text;
  if (!inside.empty()) text = joined_names(inside) + " inside a process";
  if (!across.empty()) text += (text.empty() ? "" : "; ") + joined_names(across) + " across";
  return text.empty() ? "one chip" : text;
}

}  // namespace megacpp::collectives
