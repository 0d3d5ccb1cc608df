// SPDX-License-Identifier: Apache-2.0
// The PJRT plugins that runs would load: package and version, the build id of the library, and a hash of all its bytes,
// which takes a second for a large one. Nothing is loaded.
#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/plugins/plugin_identity.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/run/lineage/locked_plugin.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {
namespace {

namespace plugins = runtime::plugins;
using plugins::PluginKind;

/// Nothing where there is none.
std::optional<plugins::PluginPlace> place_of(PluginKind kind, const Subject& subject) {
  const bool is_chosen = subject.plugin && subject.plugin->kind == kind;
  try {
    return plugins::find_plugin(kind, is_chosen ? subject.plugin->named : std::filesystem::path(),
                                subject.surroundings);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1501) throw;
    return std::nullopt;
  }
}

/// A file that the user named is of no package that is known.
std::string package_text(const plugins::PluginPlace& place) {
  if (place.package.empty()) return "a file by " + place.source;
  return plugin_version_text({.package = place.package, .version = place.version});
}

std::vector<Probe> probes_of(const plugins::PluginKindInfo& info) {
  const auto made = [&](const char* part, Pins pins, std::string (*text)(const plugins::PluginPlace&)) {
    return Probe{.name = plugin_fact(info.name, part),
                 .group = "plugins",
                 .pins = pins,
                 .ask =
                     [kind = info.kind, text](const Subject& subject) {
                       const std::optional<plugins::PluginPlace> place = place_of(kind, subject);
                       return place ? text(*place) : std::string(kNone);
                     },
                 .fix =
                     [name = info.name](const std::string& documented) {
                       return documented == kNone
                                  ? fmt::format("remove the plugin: it is not part of the documented runtime")
                                  : fmt::format("megacpp plugins fetch {}: it takes what the lock file names", name);
                     }};
  };
  return {made("", Pins::at_launch, package_text),
          made(kBuildPart, Pins::at_launch,
               [](const plugins::PluginPlace& place) { return plugins::library_id(place.file); }),
          made(kHashPart, Pins::by_doctor,
               [](const plugins::PluginPlace& place) { return plugins::library_hash(place.file); })};
}

}  // namespace

std::vector<Probe> plugins_probes() {
  std::vector<Probe> probes;
  for (const plugins::PluginKindInfo& info : plugins::plugin_kinds())
    for (Probe& probe : probes_of(info)) probes.push_back(std::move(probe));
  return probes;
}

}  // namespace megacpp::lineage
