// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/environment.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/plugins/hidden_sve.h"

namespace megacpp::runtime::plugins {
namespace {

constexpr std::string_view kRaw = "raw:";

[[noreturn]] void refuse(const std::string& entry, std::string got, std::string wanted, std::string next) {
  base::raise(base::Code::E1507, {.where = "xla.flags entry '" + entry + "'",
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = std::move(next)});
}

std::vector<std::string> names_for(PluginKind platform) {
  std::vector<std::string> names;
  for (const FlagDef& flag : all_flags()) {
    if (std::find(flag.platforms.begin(), flag.platforms.end(), platform) != flag.platforms.end())
      names.push_back(flag.name);
  }
  return names;
}

const FlagDef* find_flag(std::string_view name) {
  for (const FlagDef& flag : all_flags())
    if (flag.name == name) return &flag;
  return nullptr;
}

std::optional<int64_t> integer_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The value as the flag's type. Environment variables hold flags apart by spaces, so no value may have one.
TypedFlagValue typed(const FlagDef& flag, const std::string& text, const std::string& entry) {
  switch (flag.type) {
    case FlagType::boolean:
      if (text == "true" || text == "false") return text == "true";
      break;
    case FlagType::integer:
      if (const auto value = integer_of(text)) return *value;
      break;
    case FlagType::text:
      if (!flag.words.empty() && std::find(flag.words.begin(), flag.words.end(), text) == flag.words.end()) {
        refuse(entry, "'" + text + "'", fmt::format("{}", fmt::join(flag.words, ", ")),
               base::did_you_mean(text, flag.words, flag.name + ": " + flag.doc));
      }
      if (text.find_first_of(" \t\n") == std::string::npos) return text;
      refuse(entry, "a value with a space", "one word", "a flag's value cannot hold spaces");
  }
  refuse(entry, "'" + text + "'", std::string(type_name(flag.type)), flag.name + ": " + flag.doc);
}

/// A raw value has the type it looks like.
TypedFlagValue guessed(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto value = integer_of(text)) return *value;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_number ? TypedFlagValue(number) : TypedFlagValue(text);
}

void require_generation(const std::vector<std::string>& generations, const FlagTarget& target,
                        const std::string& entry) {
  const bool fits = generations.empty() || target.generation.empty() ||
                    std::find(generations.begin(), generations.end(), target.generation) != generations.end();
  if (!fits)
    refuse(entry, "the target is " + target.generation, fmt::format("{}", fmt::join(generations, " or ")),
           "megacpp plugins flags says what each is for");
}

void require_platform(std::span<const PluginKind> platforms, const FlagTarget& target, const std::string& entry) {
  if (std::find(platforms.begin(), platforms.end(), target.platform) != platforms.end()) return;
  std::vector<std::string> names;
  for (const PluginKind platform : platforms) names.push_back(info_of(platform).name);
  refuse(entry, "the plugin is " + info_of(target.platform).name, fmt::format("{}", fmt::join(names, " or ")),
         "take it out, or choose another xla.plugin");
}

/// Entries one after another to a list with one value a flag.
class Resolver {
 public:
  explicit Resolver(const FlagTarget& target) : target_(target) { result_.platform = target.platform; }

  void add(const std::string& entry) {
    if (entry.starts_with(kRaw)) return add_raw(entry);
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) return add_profile(entry);
    const std::string name = entry.substr(0, equals);
    const FlagDef* flag = find_flag(name);
    if (flag == nullptr)
      refuse(
          entry, "'" + name + "'", "a flag megacpp plugins flags lists",
          base::did_you_mean(name, names_for(target_.platform),
                             "raw:" + entry + " hands it over unchecked; a plugin aborts on flags it does not know"));
    require_platform(flag->platforms, target_, entry);
    require_generation(flag->generations, target_, entry);
    put({name, typed(*flag, entry.substr(equals + 1), entry), "recipe"}, entry);
  }

  ResolvedFlags finish() {
    for (const Disagreement& two : disagreements_) {
      const ResolvedFlag& settled = *find(two.flag);
      if (settled.origin.starts_with("profile "))
        refuse(two.flag, two.said, "one value", "add " + two.flag + "=<value> to settle it");
    }
    check_collectives();
    add_what_the_machine_needs();
    return std::move(result_);
  }

 private:
  struct Disagreement {
    std::string flag;
    std::string said;
  };

  ResolvedFlag* find(std::string_view name) {
    for (ResolvedFlag& flag : result_.flags)
      if (flag.name == name) return &flag;
    return nullptr;
  }

  void add_profile(const std::string& name) {
    // A flag without its value is likelier than a profile of that name.
    if (const FlagDef* flag = find_flag(name))
      refuse(name, "a flag without a value", "name=value", "write " + name + "=" + example_of(*flag));
    const FlagProfile& profile = profile_named(name);
    require_platform(std::span(&profile.platform, 1), target_, name);
    require_generation(profile.generations, target_, name);
    for (const auto& [flag, value] : profile.values)
      put({flag, typed(*find_flag(flag), value, name), "profile " + name}, name);
  }

  void add_raw(const std::string& entry) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(kRaw.size(), equals - kRaw.size());
    const bool is_name = equals != std::string::npos && !name.empty() &&
                         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (!is_name) refuse(entry, "'" + entry + "'", "raw:name=value", "give the flag's name without dashes in front");
    const std::string value = entry.substr(equals + 1);
    if (value.find_first_of(" \t\n") != std::string::npos)
      refuse(entry, "a value with a space", "one word", "a flag's value cannot hold spaces");
    put({name, guessed(value), "raw"}, entry);
  }

  static std::string example_of(const FlagDef& flag) {
    if (!flag.words.empty()) return flag.words[0];
    return flag.type == FlagType::boolean ? "true" : flag.type == FlagType::integer ? "<number>" : "<text>";
  }

  void put(ResolvedFlag flag, const std::string& entry) {
    ResolvedFlag* known = find(flag.name);
    if (known == nullptr) {
      result_.flags.push_back(std::move(flag));
      return;
    }
    const bool from_profile = flag.origin.starts_with("profile "), was_profile = known->origin.starts_with("profile ");
    if (!from_profile && !was_profile)
      refuse(entry, flag.name + " is given twice", "each flag once", "keep one of the two");
    if (from_profile && was_profile && flag.value != known->value) {
      disagreements_.push_back({flag.name, fmt::format("{}: {} says {}, {} says {}", flag.name, known->origin,
                                                       known->value_text(), flag.origin, flag.value_text())});
    }
    if (!from_profile) *known = std::move(flag);
  }

  bool is_on(const std::string& name) {
    const ResolvedFlag* flag = find(name);
    return flag != nullptr && (flag->value_text() == "true" || flag->value_text() == "ENABLED");
  }

  /// A collective runs on the SparseCore or inside compute loops, not both.
  void check_collectives() {
    for (const char* collective : {"all_gather", "all_reduce", "reduce_scatter"}) {
      const std::string fused = std::string("xla_tpu_enable_async_collective_fusion_fuse_") + collective;
      const std::string offloaded = std::string("xla_tpu_enable_sparse_core_collective_offload_") + collective;
      if (is_on(fused) && is_on(offloaded))
        refuse(offloaded, "on together with " + fused, "one of the two",
               "set " + fused + "=false or " + offloaded + "=false");
    }
  }

  void add_what_the_machine_needs() {
    constexpr const char* kLevel = "xla_backend_optimization_level";
    if (target_.platform == PluginKind::cpu && target_.hides_sve && find(kLevel) == nullptr)
      result_.flags.push_back({kLevel, int64_t{0}, "this machine hides its cores' SVE, which XLA would use"});
  }

  const FlagTarget& target_;
  ResolvedFlags result_;
  std::vector<Disagreement> disagreements_;
};

}  // namespace

std::string ResolvedFlag::value_text() const {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const double* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return std::get<std::string>(value);
}

FlagTarget flag_target_here(PluginKind platform, std::string generation) {
  return {.platform = platform, .generation = std::move(generation), .hides_sve = hides_sve(this_processor())};
}

std::string generation_of_topology(std::string_view topology) {
  const std::string_view name = topology.substr(0, topology.find(':'));
  if (name == "v5" || name == "v5p") return "v5p";
  if (name == "v5e" || name == "v5litepod") return "v5e";
  if (name == "v6e") return "v6e";
  if (name == "tpu7x" || name == "v7x") return "v7x";
  return "";
}

ResolvedFlags resolve_flags(std::span<const std::string> entries, const FlagTarget& target) {
  Resolver resolver(target);
  for (const std::string& entry : entries) resolver.add(entry);
  return resolver.finish();
}

std::pair<std::string, std::string> environment_form(const ResolvedFlags& flags) {
  std::string text;
  for (const ResolvedFlag& flag : flags.flags)
    text += fmt::format("{}--{}={}", text.empty() ? "" : " ", flag.name, flag.value_text());
  return {flags.platform == PluginKind::tpu ? "LIBTPU_INIT_ARGS" : "XLA_FLAGS", text};
}

void apply_to_environment(const ResolvedFlags& flags) {
  if (flags.flags.empty()) return;
  const auto [name, value] = environment_form(flags);
  const std::string before = base::environment_variable(name);
  // Of a flag given twice the plugin takes the last, so the recipe's come behind the user's.
  const std::string all = before.empty() ? value : before + " " + value;
  ::setenv(name.c_str(), all.c_str(), /*overwrite=*/1);
}

std::map<std::string, TypedFlagValue> override_form(const ResolvedFlags& flags) {
  std::map<std::string, TypedFlagValue> overrides;
  for (const ResolvedFlag& flag : flags.flags) overrides.emplace(flag.name, flag.value);
  return overrides;
}

std::map<std::string, TypedFlagValue> hand_over(const ResolvedFlags& flags) {
  if (flags.platform != PluginKind::tpu) return override_form(flags);
  apply_to_environment(flags);
  return {};
}

std::string to_text(const ResolvedFlags& flags, std::string_view label) {
  std::string text;
  for (const ResolvedFlag& flag : flags.flags)
    text += fmt::format("{}{}={}  ({})\n", label, flag.name, flag.value_text(), flag.origin);
  return text;
}

base::Json to_json(const ResolvedFlags& flags) {
  base::Json rows = base::Json::array();
  for (const ResolvedFlag& flag : flags.flags) {
    const base::Json value = std::visit([](const auto& typed) { return base::Json(typed); }, flag.value);
    rows.push_back({{"name", flag.name}, {"value", value}, {"origin", flag.origin}});
  }
  return rows;
}

}  // namespace megacpp::runtime::plugins
