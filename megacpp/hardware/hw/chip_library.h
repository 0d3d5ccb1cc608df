// SPDX-License-Identifier: Apache-2.0
// Chips by name: files of the user's first, then those built in. A file is found by its own name, `my-chip` in
// my-chip.yaml, or by one of its aliases; one that is called as a built-in chip stands before it, and may extend it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/hw/chip.h"

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

/// The chip whose file has exactly this among its device_names; nothing where none has. E1603 where that file is
/// malformed elsewhere.
std::optional<Chip> find_chip_of_device(const std::string& device_name,
                                        const ChipPlaces& places = ChipPlaces::current());

/// A chip that is there, or why its file gives none.
struct ListedChip {
  std::string name = {};
  std::optional<Chip> chip = {};
  std::optional<base::Error> why_not = {};  // set where there is no chip
};

/// What find_chip gives for all own names, sorted. A file that is no good hurts nobody else.
std::vector<ListedChip> all_chips(const ChipPlaces& places = ChipPlaces::current());

}  // namespace megacpp::hw
