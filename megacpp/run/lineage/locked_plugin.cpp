// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/locked_plugin.h"

#include <algorithm>

namespace megacpp::lineage {
namespace {

constexpr const char* kUnknownVersion = "unknown";

}  // namespace

std::string plugin_fact(const std::string& kind, const std::string& part) {
  return "plugin." + kind + (part.empty() ? "" : "." + part);
}

std::string plugin_version_text(const LockedPlugin& plugin) {
  return plugin.package + " " + (plugin.version.empty() ? kUnknownVersion : plugin.version);
}

std::optional<LockedPlugin> locked_plugin(const Facts& facts, const std::string& kind) {
  const std::string* const text = find_value(facts, plugin_fact(kind));
  if (text == nullptr || *text == kNone) return std::nullopt;
  LockedPlugin plugin;
  // Two words: one of a file has more.
  const size_t space = text->find(' ');
  if (std::ranges::count(*text, ' ') == 1) {
    plugin.package = text->substr(0, space);
    plugin.version = text->substr(space + 1);
    if (plugin.version == kUnknownVersion) plugin.version.clear();
  }
  if (const std::string* const build = find_value(facts, plugin_fact(kind, kBuildPart))) plugin.build = *build;
  if (const std::string* const hash = find_value(facts, plugin_fact(kind, kHashPart))) plugin.hash = *hash;
  return plugin;
}

}  // namespace megacpp::lineage
