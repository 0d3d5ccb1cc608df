// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/catalog_report.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/catalog/location.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/entry_notes.h"

namespace megacpp::cli {
namespace {

struct CatalogFlags {
  std::string file;
  std::optional<int64_t> id;
  bool json = false;
  bool all = false;
  bool yes = false;

  std::filesystem::path path() const { return file.empty() ? catalog::default_path() : std::filesystem::path(file); }
};

/// The catalog that is there. Nothing while the default one has not been made yet; a file that was named must exist.
std::optional<catalog::Catalog> open_existing(const CatalogFlags& flags, catalog::Access access) {
  const std::filesystem::path path = flags.path();
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return catalog::Catalog::open(path, {.access = access});
  MEGACPP_REQUIRE(flags.file.empty(), E1008,
                  {.where = "--catalog",
                   .got = path.string() + ": no such file",
                   .wanted = "a catalog",
                   .next = "check the path; launches make their catalog themselves"});
  return std::nullopt;
}

catalog::Entry entry_or_refuse(const std::optional<catalog::Catalog>& catalog, const CatalogFlags& flags) {
  std::optional<catalog::Entry> entry = catalog ? catalog->entry(*flags.id) : std::nullopt;
  MEGACPP_REQUIRE(entry.has_value(), E1007,
                  {.where = "ID",
                   .got = std::to_string(*flags.id),
                   .wanted = "an entry of " + flags.path().string(),
                   .next = "megacpp catalog list shows the entries"});
  return *entry;
}

/// What launches of this program would call their own on that lane: a signature that it wrote here says so.
catalog::Build own_build(const std::vector<catalog::Entry>& entries, const std::string& lane) {
  const launch::ThisBuild here;
  for (const catalog::Entry& entry : entries)
    for (const catalog::Sample& sample : entry.samples)
      if (sample.lane == lane && here.wrote(entry.signature)) return entry.signature.build;
  return {.code_version = launch::code_version()};
}

int list_entries(const CatalogFlags& flags) {
  const std::optional<catalog::Catalog> catalog = open_existing(flags, catalog::Access::read);
  std::vector<catalog::Entry> entries;
  std::vector<LaneCorrection> corrections;
  if (catalog) {
    entries = catalog->entries();
    for (const auto& [lane, quantity] : catalog->measured_lanes())
      corrections.push_back({lane, quantity, catalog->correction(lane, quantity, own_build(entries, lane))});
  }
  if (flags.json) {
    Json object = {{"catalog", flags.path().string()}};
    object.update(list_json(entries, corrections));
    print_json(object);
  } else if (entries.empty()) {
    print_err("{}: nothing is remembered yet\n", flags.path().string());
  } else {
    write_output(list_text(entries, corrections));
  }
  return 0;
}

int show_entry(const CatalogFlags& flags) {
  const std::optional<catalog::Catalog> catalog = open_existing(flags, catalog::Access::read);
  const catalog::Entry entry = entry_or_refuse(catalog, flags);
  std::vector<double> corrected;
  for (const catalog::Sample& sample : entry.samples)
    corrected.push_back(catalog::correction_by_others(
                            catalog->samples(sample.lane, sample.quantity, entry.signature.build), entry.signature)
                            .corrected(sample.parts));
  if (flags.json) print_json(entry_json(entry, corrected));
  if (!flags.json) write_output(entry_text(entry, corrected));
  return 0;
}

int forget_everything(const CatalogFlags& flags) {
  MEGACPP_REQUIRE(flags.yes, E1007,
                  {.where = "megacpp catalog forget --all",
                   .got = "no --yes",
                   .wanted = "a confirmation",
                   .next = "add --yes to remove every entry of " + flags.path().string()});
  std::optional<catalog::Catalog> catalog = open_existing(flags, catalog::Access::write);
  const catalog::Forgotten gone = catalog ? catalog->forget_all() : catalog::Forgotten{};
  print_out("forgot everything: {}, {}\n", base::counted(gone.signatures, "signature"), counts_text(gone));
  return 0;
}

int forget(const CatalogFlags& flags) {
  if (flags.all) return forget_everything(flags);
  MEGACPP_REQUIRE(flags.id.has_value(), E1007,
                  {.where = "megacpp catalog forget",
                   .got = "neither ID nor --all",
                   .wanted = "what to forget",
                   .next = "megacpp catalog list shows the entries"});
  std::optional<catalog::Catalog> catalog = open_existing(flags, catalog::Access::write);
  const catalog::Entry entry = entry_or_refuse(catalog, flags);
  const catalog::Forgotten gone = catalog->forget(entry.id);
  print_out("forgot {}: {}: {}\n", entry.id, subject_line(entry.signature), counts_text(gone));
  return 0;
}

std::shared_ptr<CatalogFlags> declare_file(CLI::App& app) {
  auto flags = std::make_shared<CatalogFlags>();
  app.add_option("--catalog", flags->file, "the catalog's file; else MEGACPP_CATALOG, else the user's own");
  return flags;
}

std::function<int()> declare_catalog_list(CLI::App& app) {
  auto flags = declare_file(app);
  app.add_flag("--json", flags->json, "print JSON");
  return [flags] { return list_entries(*flags); };
}

CLI::Option* declare_id(CLI::App& app, const std::string& help, CatalogFlags& flags) {
  return declare_number(app, {.name = "ID", .range = schema::at_least(1), .help = help},
                        [&flags](int64_t id) { flags.id = id; });
}

std::function<int()> declare_catalog_show(CLI::App& app) {
  auto flags = declare_file(app);
  declare_id(app, "as in megacpp catalog list", *flags)->required();
  app.add_flag("--json", flags->json, "print JSON");
  return [flags] { return show_entry(*flags); };
}

std::function<int()> declare_forget(CLI::App& app) {
  auto flags = declare_file(app);
  CLI::Option* id = declare_id(app, "the entry to forget, as in megacpp catalog list", *flags);
  app.add_flag("--all", flags->all, "forget every entry; needs --yes")->excludes(id);
  app.add_flag("--yes", flags->yes, "with --all: yes, everything");
  return [flags] { return forget(*flags); };
}

}  // namespace

Command catalog_command() {
  return {.name = "catalog",
          .summary = "what launches have learnt: which shapes fit, predicted against measured",
          .example = "megacpp catalog list",
          .declare = [](CLI::App& app) -> std::function<int()> {
            return declare_words(
                app,
                {{"list", "every signature: outcome, predicted, measured",
                  "megacpp catalog list\n  megacpp catalog list --catalog team.sqlite --json", declare_catalog_list},
                 {"show", "one entry in full: its launches, what ran instead, measurements",
                  "megacpp catalog show 3\n  megacpp catalog show 3 --json", declare_catalog_show},
                 {"forget", "remove an entry, or all, so that launches try it again",
                  "megacpp catalog forget 3\n  megacpp catalog forget --all --yes", declare_forget}});
          }};
}

}  // namespace megacpp::cli
