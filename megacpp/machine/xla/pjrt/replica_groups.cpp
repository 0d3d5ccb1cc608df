// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/replica_groups.h"

#include <algorithm>
#include <numeric>

#include "megacpp/machine/xla/pjrt/protobuf_reader.h"

namespace megacpp::runtime::pjrt {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kMostChips = 1 << 17;  // more is damage: the largest machines have tens of thousands

int64_t product(const Numbers& sizes, const ProtobufReader& reader) {
  int64_t all = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || size > kMostChips) reader.fail("a size of " + std::to_string(size));
    all *= size;
    if (all > kMostChips) reader.fail("more chips than any machine has");
  }
  return all;
}

bool is_permutation(const Numbers& order) {
  Numbers sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// Positions 0, 1, 2, ... of an array of these sizes, in the order they have once its dimensions are put in `order`.
Numbers transposed(const Numbers& sizes, const Numbers& order) {
  Numbers strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  Numbers positions = {0};
  for (const int64_t dim : order) {
    const auto d = static_cast<size_t>(dim);
    if (sizes[d] == 1) continue;  // a message may list thousands of these
    Numbers longer;
    for (const int64_t position : positions)
      for (int64_t i = 0; i < sizes[d]; ++i) longer.push_back(position + i * strides[d]);
    positions = std::move(longer);
  }
  return positions;
}

ReplicaGroups in_groups_of(int64_t size, const Numbers& chips) {
  ReplicaGroups groups;
  for (auto at = chips.begin(); at < chips.end(); at += size) groups.emplace_back(at, at + size);
  return groups;
}

struct MeshAxes {
  Numbers sizes;
  Numbers device_ids;  // empty: 0, 1, 2, ...
};

MeshAxes read_mesh(std::string_view bytes) {
  ProtobufReader reader(bytes, "MeshProto");
  MeshAxes mesh;
  while (reader.next()) {
    if (reader.field() == 1) {
      ProtobufReader axis(reader.bytes(), "MeshAxis");
      int64_t size = 0;
      while (axis.next())
        if (axis.field() == 2) size = axis.integer();
      mesh.sizes.push_back(size);
    }
    if (reader.field() == 2) reader.append_integers(mesh.device_ids);
  }
  return mesh;
}

// An axis of a mesh, or the middle of one that is seen as [pre_size, size, rest].
struct AxisRef {
  int64_t index = 0;
  int64_t pre_size = 1;
  int64_t size = 0;  // 0: all of it
};

AxisRef read_axis_ref(std::string_view bytes) {
  ProtobufReader reader(bytes, "AxisRefProto");
  AxisRef axis;
  while (reader.next()) {
    if (reader.field() == 1) axis.index = reader.integer();
    if (reader.field() != 2) continue;
    ProtobufReader part(reader.bytes(), "SubAxis");
    while (part.next()) {
      if (part.field() == 1) axis.pre_size = part.integer();
      if (part.field() == 2) axis.size = part.integer();
    }
  }
  return axis;
}

// A mesh whose axes are cut so that every reference is one whole axis.
struct CutMesh {
  Numbers sizes;
  std::vector<bool> grouped;
};

CutMesh cut(const MeshAxes& mesh, const std::vector<AxisRef>& axes, const ProtobufReader& reader) {
  CutMesh result;
  for (size_t i = 0; i < mesh.sizes.size(); ++i) {
    std::vector<AxisRef> own;
    for (const AxisRef& axis : axes)
      if (axis.index == static_cast<int64_t>(i)) own.push_back(axis);
    std::sort(own.begin(), own.end(), [](const AxisRef& a, const AxisRef& b) { return a.pre_size < b.pre_size; });
    int64_t before = 1;  // chips of this axis in front of what comes next
    for (const AxisRef& axis : own) {
      const int64_t size = axis.size == 0 ? mesh.sizes[i] : axis.size;
      if (axis.pre_size < before || axis.pre_size > mesh.sizes[i] || axis.pre_size % before != 0 || size < 1 ||
          size > mesh.sizes[i])
        reader.fail("parts of an axis that do not fit together");
      result.sizes.insert(result.sizes.end(), {axis.pre_size / before, size});
      result.grouped.insert(result.grouped.end(), {false, true});
      before = axis.pre_size * size;
    }
    if (before > mesh.sizes[i] || mesh.sizes[i] % before != 0) reader.fail("a part that does not divide its axis");
    result.sizes.push_back(mesh.sizes[i] / before);
    result.grouped.push_back(false);
  }
  return result;
}

}  // namespace

std::vector<int64_t> read_replica_group(std::string_view bytes) {
  ProtobufReader reader(bytes, "ReplicaGroup");
  Numbers chips;
  while (reader.next())
    if (reader.field() == 1) reader.append_integers(chips);
  return chips;
}

ReplicaGroups read_collective_device_list(std::string_view bytes) {
  ProtobufReader reader(bytes, "CollectiveDeviceListProto");
  ReplicaGroups groups;
  while (reader.next()) {
    if (reader.field() == 1) groups.push_back(read_replica_group(reader.bytes()));
    if (reader.field() == 2) groups = read_iota_groups(reader.bytes());
  }
  return groups;
}

ReplicaGroups read_iota_groups(std::string_view bytes) {
  ProtobufReader reader(bytes, "IotaReplicaGroupListProto");
  int64_t count = 0, size = 0;
  Numbers sizes, order;
  while (reader.next()) {
    if (reader.field() == 1) count = reader.integer();
    if (reader.field() == 2) size = reader.integer();
    if (reader.field() == 3) reader.append_integers(sizes);
    if (reader.field() == 4) reader.append_integers(order);
  }
  const int64_t chips = product({count, size}, reader);
  if (order.empty()) {
    order.resize(sizes.size());
    std::iota(order.begin(), order.end(), 0);
  }
  if (product(sizes, reader) != chips || order.size() != sizes.size() || !is_permutation(order))
    reader.fail("groups that do not fit their mesh");
  return in_groups_of(size, transposed(sizes, order));
}

ReplicaGroups read_mesh_axes_groups(std::string_view bytes) {
  ProtobufReader reader(bytes, "MeshAxesReplicaGroupListProto");
  MeshAxes mesh;
  std::vector<AxisRef> axes;
  while (reader.next()) {
    if (reader.field() == 1) mesh = read_mesh(reader.bytes());
    if (reader.field() == 2) axes.push_back(read_axis_ref(reader.bytes()));
  }
  const int64_t chips = product(mesh.sizes, reader);
  if (!mesh.device_ids.empty() && static_cast<int64_t>(mesh.device_ids.size()) != chips)
    reader.fail("another number of chips than its mesh has");
  for (const AxisRef& axis : axes)
    if (axis.index < 0 || axis.index >= static_cast<int64_t>(mesh.sizes.size()))
      reader.fail("an axis it does not have");
  const CutMesh whole = cut(mesh, axes, reader);
  // Grouped axes innermost: then each group stands together.
  Numbers order;
  int64_t size = 1;
  for (const bool grouped : {false, true})
    for (size_t i = 0; i < whole.sizes.size(); ++i) {
      if (whole.grouped[i] != grouped) continue;
      order.push_back(static_cast<int64_t>(i));
      if (grouped) size *= whole.sizes[i];
    }
  Numbers positions = transposed(whole.sizes, order);
  if (!mesh.device_ids.empty())
    for (int64_t& position : positions) position = mesh.device_ids[static_cast<size_t>(position)];
  return in_groups_of(size, positions);
}

}  // namespace megacpp::runtime::pjrt
