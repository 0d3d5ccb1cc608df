// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/program/recipe/plugin_name.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFromCache = "cache";

std::vector<PluginKindInfo> make_kinds() {
  return {
      {.kind = PluginKind::cpu,
       .name = "cpu",
       .variables = {"MEGACPP_PJRT_CPU"},
       .packages = {{.name = "xla-cpu-pjrt",
                     .library = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
                     .header = "xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h"}},
       .library = "xla_cpu_pjrt.so",
       .machine = "",
       .ahead_of_time = {},
       .over_processes = OverProcesses::no,
       .note = "runs anywhere; its package brings the header this program is built with"},
      {.kind = PluginKind::tpu,
       .name = "tpu",
       .variables = {"MEGACPP_PJRT_TPU", "TPU_LIBRARY_PATH"},
       .packages = {{.name = "libtpu", .library = "libtpu/libtpu.so"}},
       .library = "libtpu.so",
       .machine = "x86_64",
       .ahead_of_time = {{"TPU_SKIP_MDS_QUERY", "1",
                          "without it the plugin waits forever for a metadata server outside Google's"},
                         {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1",
                          "without it a second process that compiles is aborted at a lock file"}},
       .over_processes = OverProcesses::by_itself,
       .note = "packages exist for x86-64 only; compiles for TPU slices with no TPU present"},
      {.kind = PluginKind::cuda,
       .name = "cuda",
       .variables = {"MEGACPP_PJRT_CUDA"},
       .packages = {{.name = "jax-cuda13-pjrt", .library = "jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
                    {.name = "jax-cuda12-pjrt", .library = "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
                    {.name = "xla-cuda13-pjrt", .library = "xla_plugins/xla_cuda13_pjrt/xla_gpu_pjrt.so"},
                    {.name = "xla-cuda12-pjrt", .library = "xla_plugins/xla_cuda12_pjrt/xla_gpu_pjrt.so"}},
       .library = "xla_cuda_plugin.so",
       .machine = "",
       .ahead_of_time = {},
       .over_processes = OverProcesses::by_options,
       .note = "needs CUDA, cuDNN and NCCL where the loader finds them; installed by pip it finds the nvidia packages"},
  };
}

std::vector<std::string> split_path_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Folders in `parent` whose name starts with `prefix`, newest version first, so that python3.12 stands before
/// python3.9. A folder that cannot be read has none.
std::vector<fs::path> folders_with_prefix(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  for (const fs::path& entry : base::read_folder(parent).entries)
    if (entry.filename().string().starts_with(prefix)) found.push_back(entry);
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename().string(), right = b.filename().string();
    return left.size() != right.size() ? left.size() > right.size() : left > right;
  });
  return found;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// The package folders of the Python installations under one prefix, e.g. /usr/local or a virtual environment.
void add_prefix(const fs::path& prefix, std::vector<fs::path>& folders) {
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::path& python : folders_with_prefix(prefix / lib, "python3")) {
      for (const char* name : {"site-packages", "dist-packages"}) {
        std::error_code error;
        const fs::path folder = fs::canonical(python / name, error);
        if (error || !fs::is_directory(folder, error)) continue;
        if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
      }
    }
  }
}

}  // namespace

std::vector<fs::path> package_folders(const Surroundings& around) {
  std::vector<fs::path> folders;
  if (const std::string venv = around.variable("VIRTUAL_ENV"); !venv.empty()) add_prefix(venv, folders);
  for (const fs::path bin : split_path_list(around.variable("PATH"))) {
    std::error_code error;
    if (!fs::exists(bin / "python3", error)) continue;
    add_prefix(bin.parent_path(), folders);
    // pyenv's programs are stand-ins; the installations are beside them.
    if (bin.filename() == "shims")
      for (const fs::path& version : folders_with_prefix(bin.parent_path() / "versions", ""))
        add_prefix(version, folders);
  }
  if (const std::string home = around.variable("HOME"); !home.empty()) add_prefix(fs::path(home) / ".local", folders);
  add_prefix(around.root / "usr/local", folders);
  add_prefix(around.root / "usr", folders);
  return folders;
}

namespace {

/// "0.0.48.1" from <folder>/libtpu-0.0.48.1.dist-info; empty when there is none.
std::string installed_version(const fs::path& folder, const std::string& package) {
  constexpr std::string_view kEnd = ".dist-info";
  std::string prefix = package + "-";
  std::replace(prefix.begin(), prefix.end() - 1, '-', '_');
  for (const fs::path& info : folders_with_prefix(folder, prefix)) {
    const std::string name = info.filename().string();
    if (name.ends_with(kEnd)) return name.substr(prefix.size(), name.size() - prefix.size() - kEnd.size());
  }
  return "";
}

/// The second word of a line that `fetch` wrote, "version" or "package".
std::string fetched_word(const fs::path& folder, const std::string& name) {
  if (!is_file(folder / "VERSION")) return "";
  const std::string text = "\n" + base::read_file(folder / "VERSION"), key = "\n" + name + " ";
  const size_t begin = text.find(key);
  if (begin == std::string::npos) return "";
  const size_t start = begin + key.size();
  return text.substr(start, text.find('\n', start) - start);
}

std::string fetch_advice(const PluginKindInfo& info) {
  return fmt::format("megacpp plugins fetch {}, or name the file in xla.plugin or {}{}", info.name, info.variables[0],
                     info.machine.empty() ? "" : "; packages exist for " + info.machine + " only");
}

/// Where a search looked that found nothing: the cache's file, then packages and the folders they are not in.
std::string looked_text(const PluginKindInfo& info, const Surroundings& around,
                        const std::vector<PluginPlace>& places) {
  std::string text;
  for (const PluginPlace& place : places)
    if (place.source == kFromCache) text = "no " + place.file.string() + ", ";
  std::vector<std::string> packages, folders;
  for (const PluginPackage& package : info.packages) packages.push_back(package.name);
  for (const fs::path& folder : package_folders(around)) folders.push_back(folder.string());
  if (folders.empty()) return text + "and no folder of Python packages";
  return text + fmt::format("no package {} in {}", fmt::join(packages, " or "), fmt::join(folders, ", "));
}

}  // namespace

fs::path user_cache_folder(const Surroundings& surroundings) {
  const std::string home = surroundings.variable("HOME"), cache = surroundings.variable("XDG_CACHE_HOME");
  if (!cache.empty()) return fs::path(cache) / "megacpp";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "megacpp";
}

const std::vector<PluginKindInfo>& plugin_kinds() {
  static const std::vector<PluginKindInfo> table = make_kinds();
  return table;
}

const PluginKindInfo& info_of(PluginKind kind) {
  const PluginKindInfo& info = plugin_kinds()[static_cast<size_t>(kind)];
  MEGACPP_CHECK(info.kind == kind) << "plugin kinds are not in the order of PluginKind";
  return info;
}

std::optional<PluginKind> kind_named(std::string_view name) {
  for (const PluginKindInfo& info : plugin_kinds())
    if (info.name == name) return info.kind;
  return std::nullopt;
}

Surroundings Surroundings::current() {
  Surroundings here;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const size_t equals = text.find('='); equals != std::string_view::npos)
      here.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return here;
}

std::string Surroundings::variable(const std::string& name) const {
  base::require_known_variable(name);
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

fs::path program_folder(const Surroundings& surroundings) {
  const fs::path folder = user_cache_folder(surroundings);
  return folder.empty() ? folder : folder / "programs";
}

fs::path cache_folder(PluginKind kind, const Surroundings& surroundings) {
  const fs::path folder = user_cache_folder(surroundings);
  MEGACPP_REQUIRE(!folder.empty(), E1501,
                  {.where = "the user's cache",
                   .got = "neither XDG_CACHE_HOME nor HOME is set",
                   .wanted = "a folder for plugins",
                   .next = "set XDG_CACHE_HOME"});
  return folder / "plugins" / info_of(kind).name;
}

std::vector<PluginPlace> plugin_places(PluginKind kind, const fs::path& named, const Surroundings& surroundings) {
  const PluginKindInfo& info = info_of(kind);
  std::vector<PluginPlace> places;
  const auto add = [&places](PluginPlace place) {
    place.exists = is_file(place.file);
    places.push_back(std::move(place));
  };
  if (!named.empty()) add({.file = named, .source = "xla.plugin", .version = "", .named = true});
  for (const std::string& variable : info.variables) {
    const std::string value = surroundings.variable(variable);
    if (!value.empty()) add({.file = value, .source = variable, .version = "", .named = true});
  }
  if (!user_cache_folder(surroundings).empty()) {
    const fs::path cache = cache_folder(kind, surroundings);
    const std::string version = fetched_word(cache, "version"), package = fetched_word(cache, "package");
    add({.file = cache / info.library, .source = kFromCache, .version = version, .package = package});
  }
  // A folder's packages together: those of the active environment come before a better one elsewhere.
  for (const fs::path& folder : package_folders(surroundings)) {
    for (const PluginPackage& package : info.packages) {
      const std::string version = installed_version(folder, package.name);
      add({.file = folder / package.library,
           .source = "package " + package.name,
           .version = version,
           .package = package.name});
    }
  }
  return places;
}

PluginPlace find_plugin(PluginKind kind, const fs::path& named, const Surroundings& surroundings) {
  const std::vector<PluginPlace> places = plugin_places(kind, named, surroundings);
  for (const PluginPlace& place : places) {
    if (place.exists) return place;
    MEGACPP_REQUIRE(!place.named, E1501,
                    {.where = place.source,
                     .got = "there is no file " + place.file.string(),
                     .wanted = "the library of a plugin",
                     .next = "mend the path, or take it away so that the other places are searched"});
  }
  base::raise(base::Code::E1501, {.where = "plugin '" + info_of(kind).name + "'",
                                  .got = looked_text(info_of(kind), surroundings, places),
                                  .wanted = "the library of a plugin",
                                  .next = fetch_advice(info_of(kind))});
}

base::Decision joins_processes(PluginKind kind) {
  const PluginKindInfo& info = info_of(kind);
  if (info.over_processes != OverProcesses::no) return base::Decision::yes();
  return base::Decision::no(fmt::format(
      "the {} plugin, whose client has the devices of its own process alone: it knows no option node_id or num_nodes",
      info.name));
}

PluginKind kind_of_file(const fs::path& file) {
  switch (recipe::plugin_devices(file)) {
    case recipe::PluginDevices::tpu:
      return PluginKind::tpu;
    case recipe::PluginDevices::gpu:
      return PluginKind::cuda;
    case recipe::PluginDevices::cpu:
      return PluginKind::cpu;
  }
  return PluginKind::cpu;
}

PluginChoice choose_plugin(const std::string& text) {
  if (const auto kind = kind_named(text)) return {*kind, {}};
  std::vector<std::string> names;
  for (const PluginKindInfo& info : plugin_kinds()) names.push_back(info.name);
  MEGACPP_REQUIRE(text.find('/') != std::string::npos || text.ends_with(".so"), E1501,
                  {.where = "xla.plugin",
                   .got = "'" + text + "'",
                   .wanted = "cpu, tpu, cuda, or the path of a library",
                   .next = base::did_you_mean(text, names, "megacpp plugins list shows what is there")});
  return {kind_of_file(text), text};
}

void set_ahead_of_time_environment(PluginKind kind) {
  for (const NeededVariable& variable : info_of(kind).ahead_of_time)
    ::setenv(variable.name.c_str(), variable.value.c_str(), /*overwrite=*/0);
}

}  // namespace megacpp::runtime::plugins
