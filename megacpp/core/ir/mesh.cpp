// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/mesh.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(trimmed(text.substr(begin, end == std::string_view::npos ? end : end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  for (size_t i = axes_.size(); i-- > 0;) {
    MEGACPP_CHECK(axes_[i].size >= 1) << "mesh axis " << axes_[i].name << " has size " << axes_[i].size;
    strides_[i] = chips_;
    chips_ *= axes_[i].size;
    for (size_t j = 0; j < i; ++j)
      MEGACPP_CHECK(axes_[j].name != axes_[i].name) << "mesh axis " << axes_[i].name << " stands twice";
  }
}

int64_t Mesh::size(const Axes& axes) const {
  int64_t product = 1;
  for (const AxisId axis : axes) product *= size(axis);
  return product;
}

AxisId Mesh::axis(std::string_view name) const {
  const auto at = std::find_if(axes_.begin(), axes_.end(), [name](const MeshAxis& axis) { return axis.name == name; });
  MEGACPP_CHECK(at != axes_.end()) << "no axis '" << name << "' in the mesh " << to_string(*this);
  return static_cast<AxisId>(at - axes_.begin());
}

int64_t Mesh::coordinate(int64_t chip, AxisId axis) const { return chip / strides_[axis] % axes_[axis].size; }

int64_t Mesh::index_in_group(int64_t chip, const Axes& axes) const {
  int64_t index = 0;
  for (const AxisId axis : axes) index = index * size(axis) + coordinate(chip, axis);
  return index;
}

std::vector<int64_t> Mesh::group(int64_t chip, const Axes& axes) const {
  int64_t base = chip;
  for (const AxisId axis : axes) base -= coordinate(chip, axis) * strides_[axis];
  std::vector<int64_t> members = {base};
  for (const AxisId axis : axes) {
    std::vector<int64_t> wider;
    for (const int64_t member : members)
      for (int64_t i = 0; i < size(axis); ++i) wider.push_back(member + i * strides_[axis]);
    members = std::move(wider);
  }
  return members;
}

Axes axes_named(const Mesh& mesh, std::string_view degree) {
  Axes axes;
  for (size_t a = 0; a < mesh.axes().size(); ++a)
    if (mesh.axes()[a].name.starts_with(degree)) axes.push_back(static_cast<AxisId>(a));
  return axes;
}

std::string to_string(const Mesh& mesh) {
  if (mesh.axes().empty()) return "one chip";
  std::string text;
  for (const MeshAxis& axis : mesh.axes())
    text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string to_string(const Axes& axes, const Mesh& mesh) {
  if (axes.empty()) return "-";
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : "+") + mesh.name(axis);
  return text;
}

Axes parse_axes(std::string_view text, const Mesh& mesh) {
  Axes axes;
  if (trimmed(text) == "-") return axes;
  for (const std::string_view name : split(text, '+')) axes.push_back(mesh.axis(name));
  return axes;
}

bool Sharding::splits(AxisId axis) const {
  return std::any_of(dims.begin(), dims.end(),
                     [axis](const Axes& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

bool Sharding::is_replicated() const {
  return unreduced.empty() && std::all_of(dims.begin(), dims.end(), [](const Axes& axes) { return axes.empty(); });
}

std::string to_string(const Sharding& sharding, const Mesh& mesh) {
  std::string text;
  for (size_t d = 0; d < sharding.dims.size(); ++d) text += (d == 0 ? "" : ",") + to_string(sharding.dims[d], mesh);
  if (!sharding.unreduced.empty()) text += (text.empty() ? "~ " : " ~ ") + to_string(sharding.unreduced, mesh);
  return text;
}

Sharding parse_sharding(std::string_view text, const Mesh& mesh) {
  Sharding sharding;
  const std::vector<std::string_view> halves = split(text, '~');
  if (!halves[0].empty())
    for (const std::string_view dim : split(halves[0], ',')) sharding.dims.push_back(parse_axes(dim, mesh));
  if (halves.size() > 1) sharding.unreduced = parse_axes(halves[1], mesh);
  std::sort(sharding.unreduced.begin(), sharding.unreduced.end());
  return sharding;
}

int64_t local_size(int64_t size, const Axes& axes, const Mesh& mesh) {
  for (const AxisId axis : axes) size = (size + mesh.size(axis) - 1) / mesh.size(axis);
  return size;
}

Shape local_shape(const Shape& shape, const Sharding& sharding, const Mesh& mesh) {
  MEGACPP_CHECK(shape.size() == sharding.dims.size())
      << "sharding " << to_string(sharding, mesh) << " of a tensor " << to_string(shape);
  Shape local = shape;
  for (size_t d = 0; d < local.size(); ++d) local[d] = local_size(shape[d], sharding.dims[d], mesh);
  return local;
}

LocalRange local_range(int64_t size, const Axes& axes, const Mesh& mesh, int64_t chip) {
  LocalRange range{0, size};
  int64_t stored = size;
  for (const AxisId axis : axes) {
    stored = (stored + mesh.size(axis) - 1) / mesh.size(axis);
    const int64_t skipped = std::min(range.count, mesh.coordinate(chip, axis) * stored);
    range.first += skipped;
    range.count = std::min(range.count - skipped, stored);
  }
  return range;
}

std::vector<LocalRun> local_runs(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int64_t chip) {
  const Shape local = local_shape(shape, sharding, mesh);
  std::vector<LocalRange> ranges;
  for (size_t d = 0; d < shape.size(); ++d) ranges.push_back(local_range(shape[d], sharding.dims[d], mesh, chip));
  std::vector<LocalRun> runs = {{0, 0, 1}};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<LocalRun> finer;
    const bool is_whole = ranges[d].count == shape[d] && local[d] == shape[d];
    for (const LocalRun& run : runs) {
      if (run.count > 1 && !is_whole) {
        // A stretch of several elements whose next dimension is split falls apart.
        for (int64_t i = 0; i < run.count; ++i)
          finer.push_back({(run.whole + i) * shape[d] + ranges[d].first, (run.local + i) * local[d], ranges[d].count});
      } else {
        finer.push_back({run.whole * shape[d] + ranges[d].first, run.local * local[d], run.count * ranges[d].count});
      }
    }
    runs = std::move(finer);
  }
  std::erase_if(runs, [](const LocalRun& run) { return run.count == 0; });
  return runs;
}

bool divides(int64_t size, const Axes& axes, const Mesh& mesh) { return size % mesh.size(axes) == 0; }

}  // namespace megacpp::ir
