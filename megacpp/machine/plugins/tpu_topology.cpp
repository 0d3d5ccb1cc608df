// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/tpu_topology.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::plugins {

TpuTopology tpu_topology(const hw::Slice& slice) {
  MEGACPP_REQUIRE(slice.chip.kind == hw::ChipKind::tpu, E1506,
                  ({.where = "--target " + slice.name,
                    .got = slice.chip.title,
                    .wanted = "a TPU slice, such as v6e:4x4: only these are compiled for ahead of time",
                    .next = "take one of them, or leave --target out to compile for the devices that are here"}));
  TpuTopology topology{slice.chip.plugin_name + ":" + hw::to_text(slice.sizes), {}};
  // Hosts are taken to hold 2x2 chips, and no axis to be a ring, unless it is said.
  if (slice.chips() == 1) topology.options.push_back({"chips_per_host_bounds", {1, 1, 1}});
  std::vector<int64_t> wrap(3, 0);
  for (size_t i = 0; i < slice.sizes.size(); ++i) wrap[i] = slice.wraps(i) ? 1 : 0;
  if (std::find(wrap.begin(), wrap.end(), 1) != wrap.end()) topology.options.push_back({"wrap", wrap});
  return topology;
}

}  // namespace megacpp::runtime::plugins
