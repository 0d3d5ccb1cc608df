// SPDX-License-Identifier: Apache-2.0
// A plugin as a lock file pins it: facts by name, written by the probes of plugins and read when one is fetched.
#pragma once

#include <optional>
#include <string>

#include "megacpp/run/lineage/lineage.h"

namespace megacpp::lineage {

struct LockedPlugin {
  std::string package = {};  // as pip knows it; empty: a file of the user's, which no package brings
  std::string version = {};
  std::string build = {};  // as library_id(); empty: not pinned
  std::string hash = {};   // as library_hash()
};

inline constexpr const char* kBuildPart = "build";
inline constexpr const char* kHashPart = "hash";

/// "plugin.cpu", "plugin.cpu.build": the name of a fact about the plugin of a kind.
std::string plugin_fact(const std::string& kind, const std::string& part = "");

/// "xla-cpu-pjrt 0.6.1"
std::string plugin_version_text(const LockedPlugin& plugin);

/// Nothing where the facts have no plugin of the kind.
std::optional<LockedPlugin> locked_plugin(const Facts& facts, const std::string& kind);

}  // namespace megacpp::lineage
