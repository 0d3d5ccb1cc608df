// SPDX-License-Identifier: Apache-2.0
// Chips by name: files of the user's first, then those built in. A file is found by its own name, `my-chip` in
// my-chip.yaml; one that is called as a built-in chip stands before it, and may extend it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/hw/chip.h"

namespace megacpp::hw {

/// Folders with chip files, first one first.
struct ChipPlaces {
  std::vector<std::filesystem::path> folders;

  /// Those of MEGACPP_HW_PATH (separated by colons), then ${XDG_CONFIG_HOME:-$HOME/.config}/megacpp/hw.
  static ChipPlaces current();
};

/// Whether the text names a file rather than a chip: it has a '/' or ends in .yaml or .yml.
bool names_file(const std::string& text);

/// By name, alias or file. E1601 with the nearest name; E1603 for a malformed file, E1008 for one that is not there.
Chip find_chip(const std::string& name, const ChipPlaces& places = ChipPlaces::current());

/// All that find_chip gives for their own names, sorted.
std::vector<Chip> all_chips(const ChipPlaces& places = ChipPlaces::current());

}  // namespace megacpp::hw
