// SPDX-License-Identifier: Apache-2.0
// Memory of the host that the system may not page out, so that devices copy from and to it by themselves.
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::ir {

MemoryTier host_tier() {
  return {.name = "host", .what = "pinned memory of the host", .link = "pcie", .is_of_host = true};
}

}  // namespace megacpp::ir
