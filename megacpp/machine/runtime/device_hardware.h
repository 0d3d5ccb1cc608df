// SPDX-License-Identifier: Apache-2.0
// The hardware of a run on devices of this machine, by what they call themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "megacpp/machine/runtime/backend.h"

namespace megacpp::runtime {

struct NamedDevices {
  std::string name;   // "NVIDIA H200"
  int64_t count = 1;  // chips of the mesh
  /// What is planned with where no chip file has the name, or the chip does not come in that number.
  std::function<FoundHardware()> unknown;
};

/// The chip whose file has that name, with a note how it was found. E1603 for a file of the user's that has the name
/// and is malformed.
FoundHardware hardware_of_devices(const NamedDevices& devices);

}  // namespace megacpp::runtime
