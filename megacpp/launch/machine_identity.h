// SPDX-License-Identifier: Apache-2.0
// Which machine, or container of one, a process is on: processes with the same identity share its memory.
#pragma once

#include <string>

namespace megacpp::launch {

/// The kernel's boot and the host's name; not empty.
std::string machine_identity();

}  // namespace megacpp::launch
