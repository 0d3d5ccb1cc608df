// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/plugins/flags.h"

namespace megacpp::runtime::plugins {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<PluginKind> kinds_of(std::string_view text) {
  std::vector<PluginKind> kinds;
  for (const std::string& word : words_of(text)) {
    const auto kind = kind_named(word);
    MEGACPP_CHECK(kind.has_value()) << "flag table names the platform " << word;
    kinds.push_back(*kind);
  }
  return kinds;
}

std::vector<std::pair<std::string, std::string>> values_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string& word : words_of(text)) {
    const size_t equals = word.find('=');
    MEGACPP_CHECK(equals != std::string::npos) << "profile entry " << word;
    values.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return values;
}

}  // namespace

std::string_view type_name(FlagType type) {
  constexpr std::string_view kNames[] = {"true or false", "an integer", "a text"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view category_name(FlagCategory category) {
  constexpr std::string_view kNames[] = {"vmem",      "fusion", "sparse_core",  "async_collectives",
                                         "scheduler", "layout", "host_offload", "other"};
  return kNames[static_cast<size_t>(category)];
}

const std::vector<FlagDef>& all_flags() {
  static const std::vector<FlagDef> table = {
#define MEGACPP_XLA_FLAG(name, platforms, type, category, words, generations, doc)                                    \
  FlagDef{#name, kinds_of(platforms), FlagType::type, FlagCategory::category, words_of(words), words_of(generations), \
          doc},
#include "megacpp/machine/plugins/flag_table.inc"
#undef MEGACPP_XLA_FLAG
  };
  return table;
}

const std::vector<FlagProfile>& all_profiles() {
  static const std::vector<FlagProfile> table = {
#define MEGACPP_XLA_PROFILE(name, platform, generations, flags, doc, source) \
  FlagProfile{name, kinds_of(platform)[0], words_of(generations), values_of(flags), doc, source},
#include "megacpp/machine/plugins/flag_profiles.inc"
#undef MEGACPP_XLA_PROFILE
  };
  return table;
}

const FlagProfile& profile_named(const std::string& name) {
  std::vector<std::string> names;
  for (const FlagProfile& profile : all_profiles()) {
    if (profile.name == name) return profile;
    names.push_back(profile.name);
  }
  base::raise(base::Code::E1507, {.where = "flag profile",
                                  .got = "'" + name + "'",
                                  .wanted = "a profile, name=value or raw:name=value",
                                  .next = base::did_you_mean(name, names, "megacpp plugins flags lists all")});
}

}  // namespace megacpp::runtime::plugins
