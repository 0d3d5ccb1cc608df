// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/chip_check.h"

#include <array>

#include "megacpp/hardware/hw/chip_file.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {

void read_chip_text(const std::string& text) {
  const hw::ChipText file{.name = "fuzz", .file = "fuzz.yaml", .origin = "fuzz", .text = text};
  for (const char* key : {"aliases", "device_names"}) hw::read_names(file, key);
  const hw::Chip chip =
      hw::read_chip(file, [](const std::string& name, const std::string&) { return hw::find_chip(name, {}); });
  constexpr std::array<int64_t, 3> kShape = {3, 100, 77};
  require(hw::argument_bytes(chip, "bf16", kShape) >= 3 * 100 * 77 * 2, "a tensor takes its elements' bytes");
  for (const hw::Sizes& sizes : hw::valid_slices(chip)) {
    const hw::Slice slice{.name = "fuzz", .chip = chip, .sizes = sizes};
    require(slice.chips() > 0 && slice.hosts() > 0, "a slice has chips and hosts");
  }
}

}  // namespace megacpp::fuzz
