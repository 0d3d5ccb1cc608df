// SPDX-License-Identifier: Apache-2.0
// Files of the host's disk, read and written by pages.
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::ir {

MemoryTier disk_tier() { return {.name = "disk", .what = "files of the host", .link = "nvme", .alignment = 4096}; }

}  // namespace megacpp::ir
