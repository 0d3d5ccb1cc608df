// SPDX-License-Identifier: Apache-2.0
// Which machine, or container of one, a process is on, and of what kind it is: processes with the same identity share
// its memory.
#pragma once

#include <string>

namespace megacpp::runtime {

/// The kernel's boot and the host's name; not empty.
std::string machine_identity();

/// "x86_64", "aarch64": sums of another have other bits.
std::string machine_architecture();

}  // namespace megacpp::runtime
