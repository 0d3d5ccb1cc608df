// SPDX-License-Identifier: Apache-2.0
// The text of a chip file to a Chip. docs/hardware.md describes the format. A file may extend another chip and then
// says only what differs. A malformed one is E1603 with its line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "megacpp/hardware/hw/chip.h"

namespace megacpp::hw {

struct ChipText {
  std::string name;  // of the chip
  std::string file;  // for messages
  std::string origin;
  std::string text;
};

/// `find` gives the chip that `extends` names, or raises; `where` is file and line.
using FindChip = std::function<Chip(const std::string& name, const std::string& where)>;

Chip read_chip(const ChipText& file, const FindChip& find);

/// What it lists as `aliases` or `device_names` alone, which need no other chip: they are not inherited.
std::vector<std::string> read_names(const ChipText& file, const std::string& key);

}  // namespace megacpp::hw
