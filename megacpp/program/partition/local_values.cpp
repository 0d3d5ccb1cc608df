// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/local_values.h"

#include "megacpp/program/partition/lower_reshard.h"

namespace megacpp::partition {

void LocalValues::settle(ir::ValueId value, const ir::Sharding& sharding, ir::ValueId local) {
  ValueState& own = (*this)[value];
  own.flexible = false;
  own.preferred = sharding;
  own.versions = {{sharding, local}};
}

ir::ValueId LocalValues::remember(ir::ValueId value, const ir::Sharding& sharding, ir::ValueId local) {
  (*this)[value].versions.push_back({sharding, local});
  return local;
}

const Version* LocalValues::find(ir::ValueId value, const ir::Sharding& sharding) const {
  for (const Version& version : (*this)[value].versions)
    if (version.sharding == sharding) return &version;
  return nullptr;
}

Version LocalValues::cheapest(ir::ValueId value, const ir::Sharding& to) const {
  const ir::Shape& whole = global_.type(value).shape;
  for (const Version& version : (*this)[value].versions)
    if (is_free(plan_reshard(version.sharding, to, whole, mesh_))) return version;
  return (*this)[value].versions[0];
}

int64_t LocalValues::bytes_to(ir::ValueId value, const ir::Sharding& to) const {
  if ((*this)[value].flexible) return 0;
  const Version from = cheapest(value, to);
  const ir::TensorType& whole = global_.type(value);
  return sent_bytes(plan_reshard(from.sharding, to, whole.shape, mesh_), from.sharding, whole, mesh_);
}

}  // namespace megacpp::partition
