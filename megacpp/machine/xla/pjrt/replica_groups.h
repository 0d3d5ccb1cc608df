// SPDX-License-Identifier: Apache-2.0
// Which chips meet in a collective of XLA: the forms HloInstructionProto has for it, spelled out. An empty list stands
// for all chips in one group. Damaged bytes are E3201.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace megacpp::runtime::pjrt {

using ReplicaGroups = std::vector<std::vector<int64_t>>;

std::vector<int64_t> read_replica_group(std::string_view bytes);    // ReplicaGroup
ReplicaGroups read_collective_device_list(std::string_view bytes);  // CollectiveDeviceListProto: groups, or an iota
ReplicaGroups read_iota_groups(std::string_view bytes);             // IotaReplicaGroupListProto: [2,4]<=[4,2]T(1,0)
ReplicaGroups read_mesh_axes_groups(std::string_view bytes);        // MeshAxesReplicaGroupListProto: mesh['a'=2] {'a'}

}  // namespace megacpp::runtime::pjrt
