// SPDX-License-Identifier: Apache-2.0
// XLA flags as the recipe gives them (`xla.flags`: names of profiles, name=value, raw:name=value) to a checked list.
// Names, types and contradictions are judged here, before any plugin is loaded: a plugin aborts the process on a flag
// it does not know. The list can be handed over as an environment variable before loading or as overrides per compile.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "megacpp/core/base/json.h"
#include "megacpp/machine/plugins/plugin_places.h"

namespace megacpp::runtime::plugins {

enum class FlagType { boolean, integer, text };
enum class FlagCategory { vmem, fusion, sparse_core, async_collectives, scheduler, layout, host_offload, other };
std::string_view type_name(FlagType type);              // "true or false"
std::string_view category_name(FlagCategory category);  // "sparse_core"

/// One flag of flag_table.inc.
struct FlagDef {
  std::string name;
  std::vector<PluginKind> platforms;
  FlagType type;
  FlagCategory category;
  std::vector<std::string> words;        // what a text may be; empty = any
  std::vector<std::string> generations;  // of TPUs; empty = all
  std::string doc;
};
const std::vector<FlagDef>& all_flags();

/// One bundle of flag_profiles.inc.
struct FlagProfile {
  std::string name;
  PluginKind platform;
  std::vector<std::string> generations;                     // it is for; empty = all
  std::vector<std::pair<std::string, std::string>> values;  // flag, value
  std::string doc;
  std::string source;  // where the values come from
};
const std::vector<FlagProfile>& all_profiles();
/// E1507 with the nearest name for one that does not exist.
const FlagProfile& profile_named(const std::string& name);

/// As compilations take them (CompileOptionsProto.env_option_overrides).
using TypedFlagValue = std::variant<std::string, bool, int64_t, double>;

struct ResolvedFlag {
  std::string name;
  TypedFlagValue value;
  std::string origin;  // "profile v6e-dense", "recipe", "raw", or why this machine needs it

  std::string value_text() const;
};

struct ResolvedFlags {
  PluginKind platform;
  std::vector<ResolvedFlag> flags;  // in the order first named
};

struct FlagTarget {
  PluginKind platform;
  std::string generation = {};  // "v6e"; empty = unknown: generations are not checked
  bool hides_sve = false;       // of the machine that programs of the CPU plugin run on (hidden_sve.h)
};
/// With what is known of the machine this runs on.
FlagTarget flag_target_here(PluginKind platform, std::string generation = {});
/// "v6e" of the topology "v6e:16x16", "v5p" of "v5:2x2x1", "v7x" of "tpu7x:2x2x1"; empty for others.
std::string generation_of_topology(std::string_view topology);

/// The recipe's entries resolved. A value given by name beats a profile's; two profiles that differ on a flag must be
/// settled by one. E1507 for unknown names (with the nearest), wrong types, other platforms or generations, and for
/// contradictions: one flag given twice, continuation fusion and SparseCore offload of the same collective. What the
/// machine needs is added where the recipe does not say otherwise.
ResolvedFlags resolve_flags(std::span<const std::string> entries, const FlagTarget& target);

/// The variable the plugin reads when it is loaded, LIBTPU_INIT_ARGS or XLA_FLAGS, and what to append to it.
std::pair<std::string, std::string> environment_form(const ResolvedFlags& flags);
/// Appends them to this process's environment; call before loading the plugin. Nothing happens without flags.
void apply_to_environment(const ResolvedFlags& flags);

/// For one compilation: names without dashes, typed values.
std::map<std::string, TypedFlagValue> override_form(const ResolvedFlags& flags);

/// Gives the flags to a plugin the way its kind takes them; call before it is loaded. The TPU's reads its environment
/// then; what the others take with each compilation is returned.
std::map<std::string, TypedFlagValue> hand_over(const ResolvedFlags& flags);

/// Before each flag where they are printed.
inline constexpr std::string_view kFlagLabel = "flag       ";

/// One line per flag with its origin, each behind `label`; empty without flags.
std::string to_text(const ResolvedFlags& flags, std::string_view label = "");
/// [{"name": ..., "value": ..., "origin": ...}] for the record of a run.
base::Json to_json(const ResolvedFlags& flags);

}  // namespace megacpp::runtime::plugins
