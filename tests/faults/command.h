// SPDX-License-Identifier: Apache-2.0
// The table of commands that faults are tried on, and the commands that prepare what they read.
#pragma once

#include <string>
#include <vector>

namespace megacpp::faults {

struct Folders {
  std::string own;     // of one case, with its catalog; "{case}" in words
  std::string shared;  // prepared once, and read by all cases; "{shared}" in words
};

struct Command {
  std::string name;
  std::string words;  // it prints to stdout
  bool json = false;
};

/// Every command of megacpp at least once.
const std::vector<Command>& all_commands();

/// Words of the commands that fill the shared folder, in this order; it has their catalog as well.
const std::vector<std::string>& preparations();

/// The catalog that preparations() leave in the shared folder, a copy of which every case begins with, has one entry,
/// of a model of this name.
inline constexpr const char* kCatalogFile = "catalog.sqlite";
inline constexpr const char* kRememberedModel = "remembered";

std::string with_folders(std::string words, const Folders& folders);

}  // namespace megacpp::faults
