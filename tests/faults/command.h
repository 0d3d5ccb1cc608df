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
  /// It runs a launcher, whose processes print errors beside its own: only the status is judged. Signals alone are
  /// tried on it; what a launcher does without memory, files or streams is not ours, and tests/hosts/faults has the
  /// rest.
  bool has_launcher = false;
  bool until_stopped = false;  // it goes on until a signal ends it: where the fault sends none, the campaign does
  /// Why this machine cannot run it, which leaves it out; empty: it can.
  std::string (*why_not)() = [] { return std::string(); };
};

/// Every command of megacpp at least once.
const std::vector<Command>& all_commands();

struct Preparation {
  std::string words;
  int status = 0;  // that it ends with
};
/// The commands that fill the shared folder, in this order; it has their catalog as well.
const std::vector<Preparation>& preparations();

/// The catalog that preparations() leave in the shared folder, a copy of which every case begins with, has one entry,
/// of a model of this name.
inline constexpr const char* kCatalogFile = "catalog.sqlite";
inline constexpr const char* kRememberedModel = "remembered";

/// The run of a command, below the folder of its case: where it has one, what is left there is judged.
inline constexpr const char* kRunFolder = "run";

std::string with_folders(std::string words, const Folders& folders);

}  // namespace megacpp::faults
