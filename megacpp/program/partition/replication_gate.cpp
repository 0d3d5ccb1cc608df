// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/replication_gate.h"

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/axis_sets.h"

namespace megacpp::partition {

bool ReplicationGate::refuses(const ir::TensorType& whole, const ir::Sharding& from, const ir::Sharding& to) const {
  if (gathered(from, to).empty()) return false;
  const int64_t after = local_bytes(whole, to);
  return after > max_bytes_ && after > local_bytes(whole, from);
}

void ReplicationGate::add(const Reshard& reshard) {
  const int64_t after = local_bytes(reshard.whole, reshard.to);
  if (!largest_ || after > largest_->after)
    largest_ = Refused{.reshard = reshard, .before = local_bytes(reshard.whole, reshard.from), .after = after};
}

void ReplicationGate::check() const {
  if (!largest_) return;
  const auto& [tensor, reader, whole, from, to] = largest_->reshard;
  const ir::Axes axes = gathered(from, to);
  const std::string bytes = std::to_string(largest_->after);
  base::raise(base::Code::E1408, {.where = tensor + ", read by " + reader,
                                  .got = bytes + " bytes on every chip along " + to_string(axes, mesh_) + ", from " +
                                         std::to_string(largest_->before) + ": [" + to_string(from, mesh_) + "] -> [" +
                                         to_string(to, mesh_) + "]",
                                  .wanted = "at most " + std::to_string(max_bytes_) + " bytes that nothing asked for",
                                  .next = "set " + next_step(axes, "layout.max_replicated_bytes: " + bytes)});
}

int64_t ReplicationGate::local_bytes(const ir::TensorType& whole, const ir::Sharding& sharding) const {
  return ir::TensorType{whole.dtype, local_shape(whole.shape, sharding, mesh_)}.bytes();
}

ir::Axes ReplicationGate::gathered(const ir::Sharding& from, const ir::Sharding& to) const {
  ir::Axes axes;
  for (ir::AxisId axis = 0; axis < mesh_.axes().size(); ++axis)
    if (from.splits(axis) && !to.splits(axis)) axes.push_back(axis);
  return axes;
}

// One degree without the steps that are gathered is the nearest layout at which the tensor stays split as far as it is
// now. Where several would have to go, allowing the bytes leaves most of the layout as it is.
std::string ReplicationGate::next_step(const ir::Axes& gathered, const std::string& allowed) const {
  std::map<std::string, int64_t> degrees;  // by key
  const auto key_of = [this](ir::AxisId axis) {
    const std::string& name = mesh_.name(axis);
    const auto at = degree_keys_.find(name.substr(0, name.find('.')));
    return at == degree_keys_.end() ? std::string() : at->second;
  };
  for (const ir::AxisId axis : gathered)
    if (!key_of(axis).empty()) degrees[key_of(axis)] = 1;
  for (ir::AxisId axis = 0; axis < mesh_.axes().size(); ++axis) {
    const auto at = degrees.find(key_of(axis));
    if (at != degrees.end() && !ir::contains(gathered, axis)) at->second *= mesh_.size(axis);
  }
  if (degrees.empty()) return allowed;
  std::string lower;
  for (const auto& [key, degree] : degrees)
    lower += (lower.empty() ? "" : " and ") + key + ": " + std::to_string(degree);
  if (degrees.size() == 1) return lower + ", or " + allowed;
  return allowed + ", which every chip then holds of it, or " + lower + " and give their chips to other degrees";
}

}  // namespace megacpp::partition
