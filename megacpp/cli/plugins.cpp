// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/plugins/flags.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/run/lineage/lock_file.h"
#include "megacpp/run/lineage/locked_plugin.h"

namespace megacpp::cli {
namespace {

namespace plugins = runtime::plugins;

/// A kind by its name; `flag` is where the user wrote it.
plugins::PluginKind kind_of(const std::string& name, const std::string& flag) {
  if (const auto kind = plugins::kind_named(name)) return *kind;
  std::vector<std::string> names;
  for (const plugins::PluginKindInfo& info : plugins::plugin_kinds()) names.push_back(info.name);
  base::raise(base::Code::E1007, {.where = flag,
                                  .got = "'" + name + "'",
                                  .wanted = "cpu, tpu or cuda",
                                  .next = base::did_you_mean(name, names, "megacpp plugins list shows the kinds")});
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// ---- list

Json plugin_json(const plugins::PluginKindInfo& info, const std::vector<plugins::PluginPlace>& places) {
  Json rows = Json::array();
  for (const plugins::PluginPlace& place : places) {
    rows.push_back(Json{
        {"file", place.file.string()}, {"from", place.source}, {"version", place.version}, {"found", place.exists}});
  }
  return Json{{"kind", info.name}, {"note", info.note}, {"places", rows}};
}

/// What is there, first the one that would be used; or how to get one.
void add_rows(TextTable& table, const plugins::PluginKindInfo& info, const std::vector<plugins::PluginPlace>& places) {
  bool found = false;
  for (const plugins::PluginPlace& place : places) {
    if (!place.exists) continue;
    table.add({found ? "" : info.name, found ? "" : "used", place.version.empty() ? "-" : place.version, place.source,
               place.file.string()});
    found = true;
  }
  if (!found) table.add({info.name, "none", "-", "-", "megacpp plugins fetch " + info.name});
}

int list_plugins(bool json) {
  const plugins::Surroundings around = plugins::Surroundings::current();
  TextTable table({"kind", "", "version", "from", "file"});
  Json kinds = Json::array();
  std::string notes;
  for (const plugins::PluginKindInfo& info : plugins::plugin_kinds()) {
    const std::vector<plugins::PluginPlace> places = plugins::plugin_places(info.kind, {}, around);
    if (json) kinds.push_back(plugin_json(info, places));
    add_rows(table, info, places);
    notes += fmt::format("{}: {} ({})\n", info.name, info.note, joined(info.variables));
  }
  if (json) print_json({{"plugins", kinds}});
  if (!json) write_output(table.to_text() + "\n" + notes);
  return 0;
}

// ---- fetch

/// One moving line on a terminal; elsewhere a line when something new begins and every ten seconds.
class FetchProgress {
 public:
  FetchProgress() = default;
  FetchProgress(const FetchProgress&) = delete;
  FetchProgress& operator=(const FetchProgress&) = delete;

  void operator()(const std::string& what, int64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    const bool begins = what != what_;
    if (begins) what_ = what, begun_ = now;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begun_).count();
    if (!terminal_ && !begins && seconds % 10 != 0) return;
    const std::string line =
        begins ? "plugins: " + what
               : fmt::format("plugins: {}: {:.1f} MB, {} s", what, static_cast<double>(bytes) / 1e6, seconds);
    if (terminal_) show_moving_line(line);
    if (!terminal_) print_err("{}\n", line);
  }
  ~FetchProgress() {
    if (terminal_ && !what_.empty()) print_err("\n");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::string what_;
  std::chrono::steady_clock::time_point begun_;
};

struct FetchFlags {
  std::string kind;
  std::string package;
  std::string version;
  std::string wheel;
  std::string lock;  // file; empty: the user's, if there is one
  bool no_lock = false;
};

/// What a lock file has of the kind, or nothing; a version or package that contradicts it is refused: nothing is
/// upgraded behind the runs that it is for.
std::optional<lineage::LockedPlugin> locked(const FetchFlags& flags, plugins::PluginKind kind, std::string& file) {
  if (flags.no_lock) return std::nullopt;
  std::optional<std::filesystem::path> found = lineage::find_lock({}, plugins::Surroundings::current());
  if (!flags.lock.empty()) found = flags.lock;
  if (!found) return std::nullopt;
  file = found->string();
  const std::string& name = plugins::info_of(kind).name;
  const lineage::Facts facts = lineage::read_lock(*found).facts;
  const std::string* const documented = lineage::find_value(facts, lineage::plugin_fact(name));
  MEGACPP_REQUIRE(documented == nullptr || *documented != lineage::kNone, E1007,
                  {.where = "megacpp plugins fetch " + name,
                   .got = fmt::format("a plugin that {} documents as not there", file),
                   .wanted = "one that the lock file names",
                   .next = "add --no-lock, and write the file again once it is there: megacpp doctor --write"});
  std::optional<lineage::LockedPlugin> plugin = lineage::locked_plugin(facts, name);
  if (!plugin) return std::nullopt;
  const bool is_same = (flags.version.empty() || flags.version == plugin->version) &&
                       (flags.package.empty() || flags.package == plugin->package);
  MEGACPP_REQUIRE(is_same, E1007,
                  {.where = "megacpp plugins fetch " + name,
                   .got = flags.version.empty() ? "--package " + flags.package : "--version " + flags.version,
                   .wanted = fmt::format("{}, as {} has it", lineage::plugin_version_text(*plugin), file),
                   .next = "leave it out, or add --no-lock to leave the documented runtime"});
  return plugin;
}

plugins::FetchedPlugin fetch_with_progress(const FetchFlags& flags) {
  plugins::FetchRequest request{.kind = kind_of(flags.kind, "megacpp plugins fetch"),
                                .package = flags.package,
                                .version = flags.version,
                                .wheel = flags.wheel};
  std::string file;
  if (const std::optional<lineage::LockedPlugin> plugin = locked(flags, request.kind, file)) {
    request.package = plugin->package;
    request.version = plugin->version;
    request.wanted = {.build = plugin->build, .hash = plugin->hash, .by_file = file};
    print_err("plugins: {} as {} has it\n", lineage::plugin_version_text(*plugin), file);
  }
  FetchProgress progress;
  request.on_progress = [&](const std::string& what, int64_t bytes) { progress(what, bytes); };
  return plugins::fetch_plugin(request);
}

int fetch(const FetchFlags& flags) {
  const plugins::FetchedPlugin fetched = fetch_with_progress(flags);
  print_out("{} {} in {}\n", fetched.package, fetched.version, fetched.library.string());
  return 0;
}

// ---- flags

struct FlagsFlags {
  std::string profile;
  std::string platform;
  bool json = false;
};

bool is_for(const plugins::FlagDef& flag, const std::optional<plugins::PluginKind>& platform) {
  return !platform || std::find(flag.platforms.begin(), flag.platforms.end(), *platform) != flag.platforms.end();
}

std::string platforms_text(const plugins::FlagDef& flag) {
  std::vector<std::string> names;
  for (const plugins::PluginKind kind : flag.platforms) names.push_back(plugins::info_of(kind).name);
  return joined(names);
}

std::string values_text(const plugins::FlagDef& flag) {
  return flag.words.empty() ? std::string(plugins::type_name(flag.type)) : joined(flag.words);
}

int show_profile(const plugins::FlagProfile& profile, bool json) {
  Json values = Json::object();
  TextTable table({"flag", "value"});
  for (const auto& [flag, value] : profile.values) {
    table.add({flag, value});
    values[flag] = value;
  }
  if (json) {
    print_json({{"profile", profile.name},
                {"platform", plugins::info_of(profile.platform).name},
                {"generations", profile.generations},
                {"meaning", profile.doc},
                {"source", profile.source},
                {"flags", values}});
  } else {
    print_out("{} ({} {}): {}\nvalues from {}\n\n", profile.name, plugins::info_of(profile.platform).name,
              joined(profile.generations), profile.doc, profile.source);
    write_output(table.to_text());
  }
  return 0;
}

int list_flags(const std::optional<plugins::PluginKind>& platform, bool json) {
  Json flags = Json::array(), profiles = Json::array();
  TextTable flag_table({"flag", "platform", "category", "value", "generations", "meaning"});
  for (const plugins::FlagDef& flag : plugins::all_flags()) {
    if (!is_for(flag, platform)) continue;
    flag_table.add({flag.name, platforms_text(flag), std::string(plugins::category_name(flag.category)),
                    values_text(flag), flag.generations.empty() ? "all" : joined(flag.generations), flag.doc});
    flags.push_back(Json{{"name", flag.name},
                         {"platforms", platforms_text(flag)},
                         {"category", plugins::category_name(flag.category)},
                         {"value", values_text(flag)},
                         {"generations", flag.generations},
                         {"meaning", flag.doc}});
  }
  TextTable profile_table({"profile", "platform", "generations", ">flags", "meaning"});
  for (const plugins::FlagProfile& profile : plugins::all_profiles()) {
    if (platform && profile.platform != *platform) continue;
    profile_table.add({profile.name, plugins::info_of(profile.platform).name,
                       profile.generations.empty() ? "all" : joined(profile.generations),
                       std::to_string(profile.values.size()), profile.doc});
    profiles.push_back(Json{{"name", profile.name},
                            {"platform", plugins::info_of(profile.platform).name},
                            {"generations", profile.generations},
                            {"meaning", profile.doc},
                            {"source", profile.source}});
  }
  if (json) print_json({{"flags", flags}, {"profiles", profiles}});
  if (!json) write_output(flag_table.to_text());
  if (!json && !profiles.empty()) write_output("\n" + profile_table.to_text());
  return 0;
}

int flags(const FlagsFlags& given) {
  if (!given.profile.empty()) return show_profile(plugins::profile_named(given.profile), given.json);
  std::optional<plugins::PluginKind> platform;
  if (!given.platform.empty()) platform = kind_of(given.platform, "--platform");
  return list_flags(platform, given.json);
}

// ---- the command

std::function<int()> declare_plugin_list(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print JSON, with the places that were looked at in vain");
  return [json] { return list_plugins(*json); };
}

std::function<int()> declare_fetch(CLI::App& app) {
  auto given = std::make_shared<FetchFlags>();
  app.add_option("KIND", given->kind, "cpu, tpu or cuda")->required();
  app.add_option("--version", given->version, "version of the package; the newest without it");
  app.add_option("--package", given->package, "another package of that kind, e.g. jax-cuda12-pjrt");
  app.add_option("--wheel", given->wheel, "take it from this wheel file instead of downloading");
  CLI::Option* const lock =
      app.add_option("--lock", given->lock, "take what this lock file names; without: that of the user's settings")
          ->type_name("FILE");
  app.add_flag("--no-lock", given->no_lock, "look at no lock file")->excludes(lock);
  return [given] { return fetch(*given); };
}

std::function<int()> declare_flags(CLI::App& app) {
  auto given = std::make_shared<FlagsFlags>();
  app.add_option("--profile", given->profile, "show the flags of one profile");
  app.add_option("--platform", given->platform, "only those of cpu, tpu or cuda");
  app.add_flag("--json", given->json, "print JSON");
  return [given] { return flags(*given); };
}

}  // namespace

Command plugins_command() {
  return {.name = "plugins",
          .summary = "find and fetch PJRT plugins; list the XLA flags recipes may set",
          .example = "megacpp plugins list",
          .declare = [](CLI::App& app) -> std::function<int()> {
            return declare_words(
                app,
                {{"list", "the plugins of this machine and which one is used", "megacpp plugins list --json",
                  declare_plugin_list},
                 {"fetch", "download a packaged plugin with pip and keep its library in the user's cache",
                  "megacpp plugins fetch cpu\n  megacpp plugins fetch tpu --version 0.0.48.1\n"
                  "  megacpp plugins fetch cuda --package jax-cuda12-pjrt\n"
                  "  megacpp plugins fetch tpu --wheel libtpu-0.0.48.1.whl",
                  declare_fetch},
                 {"flags", "the XLA flags and profiles xla.flags may name",
                  "megacpp plugins flags --profile v6e-dense\n  megacpp plugins flags --platform tpu", declare_flags}});
          }};
}

}  // namespace megacpp::cli
