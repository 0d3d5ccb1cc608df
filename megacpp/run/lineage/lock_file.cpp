// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/lock_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/plugins/plugin_fetch.h"

namespace megacpp::lineage {
namespace {

using base::Code;
using base::Json;
namespace fs = std::filesystem;

constexpr const char* kFormat = "megacpp lock file";
constexpr const char* kWriteAgain =
    "write it again: megacpp doctor --write FILE, on the machine that is as it should be";

/// All but the checksum.
Json content_of(const Lock& lock) {
  Json runtime = Json::object();
  for (const Fact& fact : lock.facts) runtime[fact.name] = fact.value;
  return {{"format", kFormat},
          {"version", kLockVersion},
          {"architecture", lock.architecture},
          {"runtime", std::move(runtime)}};
}

std::string checksum_of(const Json& content) { return base::hash_text(base::to_text(content)); }

[[noreturn]] void refuse_lock(const std::string& where, const std::string& got, const std::string& wanted) {
  base::raise(Code::E1901, {.where = where, .got = got, .wanted = wanted, .next = kWriteAgain});
}

const std::string& text_member(const Json& json, const char* name, const std::string& where) {
  const Json* const member = base::find_member(json, name);
  const std::string* const text = member == nullptr ? nullptr : base::as_text(*member);
  if (text == nullptr) refuse_lock(where, fmt::format("no text under \"{}\"", name), "a lock file as it was written");
  return *text;
}

void require_version(const Json& json, const std::string& where) {
  const Json* const member = base::find_member(json, "version");
  const std::optional<int64_t> version = member == nullptr ? std::nullopt : base::as_integer(*member);
  if (!version || *version < 1) refuse_lock(where, "no version", fmt::format("version {}", kLockVersion));
  MEGACPP_REQUIRE(*version <= kLockVersion, E1902,
                  {.where = where,
                   .got = fmt::format("version {}", *version),
                   .wanted = fmt::format("at most {}, which this megacpp reads", kLockVersion),
                   .next = "take the megacpp that wrote it or a newer one, or write it again with this one"});
}

Facts facts_of(const Json& json, const std::string& where) {
  const Json* const runtime = base::find_member(json, "runtime");
  if (runtime == nullptr || !runtime->is_object())
    refuse_lock(where, "no object under \"runtime\"", "a lock file as it was written");
  Facts facts;
  for (const auto& [name, value] : runtime->items()) {
    const std::string* const text = base::as_text(value);
    if (text == nullptr) refuse_lock(where, fmt::format("{} under \"{}\"", base::kind_name(value), name), "a text");
    facts.push_back({.name = name, .value = *text});
  }
  return facts;
}

}  // namespace

std::string print_lock(const Lock& lock) {
  Json json = content_of(lock);
  const std::string checksum = checksum_of(json);
  json["checksum"] = checksum;
  return base::to_text(json, 2) + "\n";
}

Lock parse_lock(std::string_view text, const std::string& where) {
  const Json json = base::parse_json(text, Code::E1901, where);
  if (text_member(json, "format", where) != kFormat)
    refuse_lock(where, "another format", fmt::format("\"format\": \"{}\"", kFormat));
  require_version(json, where);
  const std::string& checksum = text_member(json, "checksum", where);
  Lock lock{.architecture = text_member(json, "architecture", where), .facts = facts_of(json, where)};
  Json content = json;
  content.erase("checksum");
  if (checksum != checksum_of(content))
    refuse_lock(where, "a text that its checksum does not fit: it was edited", "a lock file as it was written");
  return lock;
}

Lock read_lock(const fs::path& file) {
  Lock lock = parse_lock(base::read_file(file), file.string());
  const std::string here = runtime::plugins::this_machine();
  MEGACPP_REQUIRE(lock.architecture == here, E1903,
                  {.where = file.string(),
                   .got = "a lock file of " + lock.architecture,
                   .wanted = "one of this machine, which is " + here,
                   .next = "take a machine of that architecture, or write one for this: megacpp doctor --write FILE"});
  return lock;
}

fs::path users_lock_file(const runtime::plugins::Surroundings& surroundings) {
  // The XDG rules: a folder that is not absolute counts as not given.
  const fs::path config = surroundings.variable("XDG_CONFIG_HOME"), home = surroundings.variable("HOME");
  if (config.is_absolute()) return config / "megacpp" / kLockName;
  return home.is_absolute() ? home / ".config" / "megacpp" / kLockName : fs::path();
}

std::optional<fs::path> find_lock(const fs::path& recipe_file, const runtime::plugins::Surroundings& surroundings) {
  const fs::path users = users_lock_file(surroundings);
  for (const fs::path& file : {recipe_file.empty() ? fs::path() : recipe_file.parent_path() / kLockName, users})
    if (!file.empty() && base::exists(file)) return file;
  return std::nullopt;
}

}  // namespace megacpp::lineage
