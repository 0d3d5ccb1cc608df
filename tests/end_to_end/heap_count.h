// SPDX-License-Identifier: Apache-2.0
// Counts what the whole test program takes from the heap, so that a kernel that allocates while it runs is found
// whatever it uses.
#pragma once

#include <cstdint>

namespace megacpp::testing_support {

int64_t heap_allocations();

}  // namespace megacpp::testing_support
