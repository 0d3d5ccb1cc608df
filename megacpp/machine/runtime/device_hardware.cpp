// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/device_hardware.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/hw/chip_library.h"

namespace megacpp::runtime {
namespace {

// So many devices of a chip; nothing where it does not come so.
std::optional<hw::Slice> slice_of_devices(const hw::Chip& chip, int64_t devices) {
  try {
    hw::Slice slice = hw::parse_target(fmt::format("{}:{}", chip.name, devices));
    return slice.devices() == devices ? std::optional(std::move(slice)) : std::nullopt;
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1602) throw;
    return std::nullopt;
  }
}

}  // namespace

FoundHardware hardware_of_devices(const NamedDevices& devices) {
  const std::optional<hw::Chip> chip = hw::find_chip_of_device(devices.name);
  std::optional<hw::Slice> slice = chip ? slice_of_devices(*chip, devices.count) : std::nullopt;
  if (slice) {
    std::string note = fmt::format("{}: the devices call themselves {}", slice->name, devices.name);
    return {.slice = std::move(*slice), .note = std::move(note)};
  }
  FoundHardware found = devices.unknown();
  const std::string why =
      chip ? fmt::format("{} does not come in {}", chip->name, devices.count) : "no chip file has that";
  found.note = fmt::format(
      "the devices call themselves {}, and {}: planned without their memory and rates; hardware.target names a chip, "
      "docs/hardware.md adds one",
      devices.name, why);
  return found;
}

}  // namespace megacpp::runtime
