// SPDX-License-Identifier: Apache-2.0
// A TPU slice as the plugin must be told of it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/hardware/hw/slice.h"

namespace megacpp::runtime::plugins {

struct TpuTopology {
  std::string name;  // as the plugin calls it: "v5:2x2x1"
  /// Lists of three: hosts that hold fewer chips than usual, and axes that close to a ring.
  std::vector<std::pair<std::string, std::vector<int64_t>>> options;
};

/// E1506 for a slice of other chips.
TpuTopology tpu_topology(const hw::Slice& slice);

}  // namespace megacpp::runtime::plugins
