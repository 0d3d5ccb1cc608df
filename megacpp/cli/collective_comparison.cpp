// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/collective_comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace megacpp::cli {
namespace {

// Axes of one chip move nothing, and neither side's order says anything.
std::string in_mesh_order(const std::string& text, const ir::Mesh& mesh) {
  ir::Axes axes = ir::parse_axes(text, mesh);
  std::erase_if(axes, [&](ir::AxisId axis) { return mesh.size(axis) == 1; });
  std::sort(axes.begin(), axes.end());
  return ir::to_string(axes, mesh);
}

}  // namespace

std::string CollectiveComparison::difference() const {
  if (ours.calls == 0) return "XLA only";
  if (xla.calls == 0) return "ours only";
  if (xla.bytes != ours.bytes && ours.bytes > 0) {
    const double ratio = static_cast<double>(xla.bytes) / static_cast<double>(ours.bytes);
    return ratio > 0.5 && ratio < 2 ? fmt::format("bytes {:+.2f}%", 100 * (ratio - 1))
                                    : fmt::format("bytes x{:.3g}", ratio);
  }
  return xla.calls == ours.calls ? "" : "calls";
}

std::vector<CollectiveComparison> compare_collectives(const std::vector<runtime::pjrt::XlaCollective>& xla,
                                                      const std::vector<compile::CollectiveRow>& ours,
                                                      int64_t micro_steps, const ir::Mesh& mesh) {
  std::map<std::pair<std::string, std::string>, CollectiveComparison> rows;
  const auto row = [&rows](const std::string& kind, const std::string& axes) -> CollectiveComparison& {
    CollectiveComparison& found = rows[{kind, axes}];
    found.kind = kind;
    found.axes = axes;
    return found;
  };
  for (const runtime::pjrt::XlaCollective& each : xla) {
    CollectiveComparison& found = row(each.kind, each.axes);
    found.xla.calls += each.calls;
    found.xla.bytes += each.total_bytes();
    found.xla_at_least = found.xla_at_least || each.at_least;
  }
  for (const compile::CollectiveRow& each : ours) {
    const int64_t times = each.phase == compile::Phase::update ? 1 : micro_steps;
    CollectiveComparison& found = row(each.kind, in_mesh_order(each.axes, mesh));
    found.ours.calls += each.calls * times;
    found.ours.bytes += each.total_bytes() * times;
  }
  std::vector<CollectiveComparison> result;
  for (auto& [key, found] : rows) result.push_back(std::move(found));
  return result;
}

}  // namespace megacpp::cli
