// SPDX-License-Identifier: Apache-2.0
// Brings a plugin's packaged wheel into the user's cache: pip downloads it, the library and the header are taken out,
// the rest is thrown away. Files appear whole or not at all, and a failure leaves nothing behind. One fetch at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "megacpp/machine/plugins/plugin_places.h"

namespace megacpp::runtime::plugins {

/// The machine this program runs on, as wheels name it: "x86_64", "aarch64".
std::string this_machine();

/// The library that a lock file names.
struct WantedLibrary {
  std::string build = {};    // as library_id(); empty: any
  std::string hash = {};     // as library_hash(); empty: any
  std::string by_file = {};  // who wants it, for messages
};

struct FetchRequest {
  PluginKind kind;
  std::string package = {};          // empty = the kind's first
  std::string version = {};          // empty = the newest
  std::filesystem::path wheel = {};  // used instead of downloading
  WantedLibrary wanted = {};         // any other is refused before it has a place
  std::string machine = this_machine();
  Surroundings surroundings = Surroundings::current();
  /// Told what is being done and how many bytes have arrived, about once a second.
  std::function<void(const std::string& what, int64_t bytes)> on_progress = [](const std::string&, int64_t) {};
};

struct FetchedPlugin {
  std::filesystem::path library;
  std::filesystem::path header;  // empty when the package has none
  std::string package;
  std::string version;
};

/// E1007 for a package the kind does not have, E1008 for a wheel that cannot be read, otherwise E3203 with the words
/// of pip or what is wrong with the wheel, such as another library than the wanted one.
FetchedPlugin fetch_plugin(const FetchRequest& request);

}  // namespace megacpp::runtime::plugins
