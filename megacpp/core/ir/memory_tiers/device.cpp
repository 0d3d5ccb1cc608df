// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::ir {

MemoryTier device_tier() { return {.name = "device", .what = "memory of the device", .link = ""}; }

}  // namespace megacpp::ir
