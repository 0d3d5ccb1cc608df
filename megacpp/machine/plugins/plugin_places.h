// SPDX-License-Identifier: Apache-2.0
// Where PJRT plugins are. One record per kind says which packages carry the library, which variables name it and what
// it needs; a search looks at the places in a fixed order and reads folder names only: no plugin is loaded, no Python
// is run.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"

namespace megacpp::runtime::plugins {

enum class PluginKind { cpu, tpu, cuda };

/// A Python package that carries a plugin; paths as in its wheel and under site-packages.
struct PluginPackage {
  std::string name;         // as pip knows it
  std::string library;      // e.g. "libtpu/libtpu.so"
  std::string header = {};  // of the PJRT C API, where the package brings one
};

struct NeededVariable {
  std::string name;
  std::string value;
  std::string why;
};

/// How the devices of several processes become those of one mesh.
enum class OverProcesses {
  no,          // a client has the devices of its own process alone
  by_options,  // clients are told which they are of how many, and find each other in a store of keys and values
  by_itself,   // by variables of the environment that the system's own launcher sets
};

struct PluginKindInfo {
  PluginKind kind;
  std::string name;                           // "cpu"
  std::vector<std::string> variables;         // environment variables that name the library, first one first
  std::vector<PluginPackage> packages;        // preferred first; `fetch` takes the first
  std::string library;                        // its name in the cache
  std::string machine;                        // the only machine there are packages for, e.g. "x86_64"; empty = any
  std::vector<NeededVariable> ahead_of_time;  // environment for compiling with no device present
  OverProcesses over_processes;
  std::string note;  // for people
};

const std::vector<PluginKindInfo>& plugin_kinds();
const PluginKindInfo& info_of(PluginKind kind);
/// "cpu", "tpu" or "cuda"; nothing for other words.
std::optional<PluginKind> kind_named(std::string_view name);

/// Whether clients in several processes can have one mesh; no, with the reason.
base::Decision joins_processes(PluginKind kind);

/// What a search depends on: environment variables and the folder that stands for "/".
struct Surroundings {
  std::map<std::string, std::string> variables;
  std::filesystem::path root = "/";

  static Surroundings current();
  /// The variable's value; empty when unset.
  std::string variable(const std::string& name) const;
};

/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp; empty without a home folder.
std::filesystem::path user_cache_folder(const Surroundings& surroundings);
/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp/plugins/<kind>, where `fetch` puts plugins; E1501 without a home folder.
std::filesystem::path cache_folder(PluginKind kind, const Surroundings& surroundings);
/// ${XDG_CACHE_HOME:-$HOME/.cache}/megacpp/programs, where compiled programs are kept; empty without a home folder.
std::filesystem::path program_folder(const Surroundings& surroundings = Surroundings::current());

/// Folders of Python packages, preferred first: of the active environment, of each python3 on the path, of the user and
/// of the system.
std::vector<std::filesystem::path> package_folders(const Surroundings& surroundings);

/// A place a plugin may be in, whether or not it is there.
struct PluginPlace {
  std::filesystem::path file;
  std::string source;   // "xla.plugin", "MEGACPP_PJRT_TPU", "cache", "package libtpu"
  std::string version;  // of the package, where it is known
  bool exists = false;
  bool named = false;        // the user named this very file: nothing behind it is looked at
  std::string package = {};  // as pip knows it, where it is known
};

/// All places, best first. `named` is the path the user gave, empty for none.
std::vector<PluginPlace> plugin_places(PluginKind kind, const std::filesystem::path& named,
                                       const Surroundings& surroundings);

/// The first place that exists. E1501 with the places looked at and the command that fetches the plugin; a file that
/// was named, by path or by variable, and is not there is refused without looking further.
PluginPlace find_plugin(PluginKind kind, const std::filesystem::path& named = {},
                        const Surroundings& surroundings = Surroundings::current());

/// The kind of a library by its file's name; cpu where that says nothing.
PluginKind kind_of_file(const std::filesystem::path& file);

/// What `xla.plugin` says: a kind, or a file of a kind that follows from its name. E1501 for a word that is neither.
struct PluginChoice {
  PluginKind kind;
  std::filesystem::path named;  // empty: search
};
PluginChoice choose_plugin(const std::string& text);

/// Sets what the kind needs when no device is present, leaving variables the user has set alone. Call before loading.
void set_ahead_of_time_environment(PluginKind kind);

}  // namespace megacpp::runtime::plugins
