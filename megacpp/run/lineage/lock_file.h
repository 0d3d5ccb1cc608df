// SPDX-License-Identifier: Apache-2.0
// The lock file: the runtime that runs are set up for, as text. JSON with a format, a version, the architecture, the
// facts and a checksum over all of these; the same facts give the same bytes. It is called megacpp.lock and stands
// beside the recipe, where it goes with the recipe from machine to machine, or else in the user's folder of settings,
// for all recipes of one machine. Nobody edits it: `megacpp doctor --write` makes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/run/lineage/lineage.h"

namespace megacpp::lineage {

inline constexpr int64_t kLockVersion = 1;
inline constexpr const char* kLockName = "megacpp.lock";

struct Lock {
  std::string architecture = {};  // "x86_64", as the system names it
  Facts facts = {};

  bool operator==(const Lock&) const = default;
};

/// The text of a lock file of today's version.
std::string print_lock(const Lock& lock);

/// E1901 for what is no lock file, is cut off or was edited, E1902 for one of a newer version. `where` names the text.
Lock parse_lock(std::string_view text, const std::string& where);

/// The lock of a file, which is for this machine: else E1903. E1008 where it cannot be read.
Lock read_lock(const std::filesystem::path& file);

/// ${XDG_CONFIG_HOME:-$HOME/.config}/megacpp/megacpp.lock; empty without a home folder.
std::filesystem::path users_lock_file(const runtime::plugins::Surroundings& surroundings);

/// The one that holds for a recipe: beside it, else the user's; nothing where neither is there. An empty path is no
/// recipe.
std::optional<std::filesystem::path> find_lock(const std::filesystem::path& recipe_file,
                                               const runtime::plugins::Surroundings& surroundings);

}  // namespace megacpp::lineage
