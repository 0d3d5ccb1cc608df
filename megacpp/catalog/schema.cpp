// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/schema.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/catalog/location.h"
#include "megacpp/catalog/rewrite_signatures.h"

namespace megacpp::catalog {
namespace {

struct Step {
  const char* tables;
  void (*rewrite)(const Database&) = nullptr;  // rows, once the tables are those of today
};

/// Step n brings version n to n + 1. A step that was released never changes; a new version is a new step.
constexpr Step kSteps[] = {
    {.tables = R"(
CREATE TABLE signature (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  subject TEXT NOT NULL,       -- key without the code version
  code_version TEXT NOT NULL,
  hardware TEXT NOT NULL,
  model TEXT NOT NULL,
  model_hash TEXT NOT NULL,
  layout TEXT NOT NULL,
  features TEXT NOT NULL,
  shape TEXT NOT NULL
);
CREATE TABLE outcome (         -- one launch, or one rung of a launch
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,            -- UTC
  fits INTEGER NOT NULL,
  oom_class TEXT NOT NULL,
  stage TEXT NOT NULL,
  rung INTEGER NOT NULL,
  chip TEXT NOT NULL,
  predicted_bytes INTEGER,
  measured_bytes INTEGER,
  limit_bytes INTEGER,
  predicted_seconds REAL,      -- of a step
  measured_seconds REAL,
  note TEXT NOT NULL
);
CREATE INDEX outcome_signature ON outcome (signature);
CREATE TABLE start (           -- settings that worked for a launch that asked for the signature
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  rung INTEGER NOT NULL,
  settings TEXT NOT NULL,      -- JSON: {"train.batch": "2"}
  reasons TEXT NOT NULL,       -- JSON: ["..."]
  after_outcome INTEGER NOT NULL
);
CREATE INDEX start_signature ON start (signature);
CREATE TABLE sample (          -- predicted parts against one measured number
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,
  at TEXT NOT NULL,
  lane TEXT NOT NULL,
  quantity TEXT NOT NULL,
  parts TEXT NOT NULL,         -- JSON: {"weights": 1.5e9}
  measured REAL NOT NULL
);
CREATE INDEX sample_signature ON sample (signature);
CREATE INDEX sample_lane ON sample (lane, quantity);
)"},
    {.tables = R"(
ALTER TABLE signature ADD COLUMN platform TEXT NOT NULL DEFAULT '';  -- plugin and driver; empty: the build's own backend
ALTER TABLE outcome ADD COLUMN report TEXT NOT NULL DEFAULT '';      -- JSON of an out-of-memory report, or empty
CREATE INDEX signature_subject ON signature (subject);
)",
     .rewrite = rewrite_signatures},
    {.tables = R"(
ALTER TABLE signature ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;   -- of a virtual chip; 0: real ones, or not noted
ALTER TABLE signature ADD COLUMN processor TEXT NOT NULL DEFAULT '';   -- of the machine of virtual chips, or empty
)"},
    // The lane of a backend with several placements names the one: that of the signature, or the default.
    {.tables = R"(
UPDATE sample SET lane = lane || CASE
    WHEN EXISTS (SELECT 1 FROM signature WHERE signature.id = sample.signature
                 AND ' ' || features || ' ' LIKE '% placement=xla %') THEN ' placement=xla'
    ELSE ' placement=megacpp' END
  WHERE lane LIKE 'xla %';
)"},
    // A stage is one of a pipeline; what a launch was doing is its phase, in the column and in reports.
    {.tables = R"(
ALTER TABLE outcome RENAME COLUMN stage TO phase;
UPDATE outcome SET report = replace(report, '"stage":', '"phase":');
)"},
};
static_assert(std::size(kSteps) == kSchemaVersion);

// Of SQLite's file header, big-endian.
constexpr size_t kFormatAt = 44, kVersionAt = 60, kApplicationAt = 68;
constexpr int64_t kFormats = 4;  // SQLite's formats of schemas; it calls others an error without a class of its own

int64_t number_at(const std::array<unsigned char, Database::kHeaderSize>& header, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | header[at + i];
  return static_cast<int32_t>(value);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& got) { refuse_file(path.string(), got); }

/// SQLite would write its journal beside a device, too.
void check_kind(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool known = std::filesystem::exists(path, ignored);
  if (known && !std::filesystem::is_regular_file(path, ignored)) refuse(path, "a folder or a device");
}

/// Leaves the versions from 0, whose tables are still to be made, to the one this program knows.
void check_version(const std::filesystem::path& path, int64_t version) {
  if (version < 0) refuse(path, fmt::format("a damaged file: schema version {}", version));
  MEGACPP_REQUIRE(version <= kSchemaVersion, E1702,
                  {.where = path.string(),
                   .got = fmt::format("schema version {}", version),
                   .wanted = fmt::format("at most {}, which this program knows", kSchemaVersion),
                   .next = "use the newer megacpp, or name another file with --catalog or MEGACPP_CATALOG"});
}

/// Judged from the bytes on disk, before SQLite may recover, lock or create anything around a file that is not ours.
void check_header(const Database& database, const std::filesystem::path& path) {
  if (database.size() == 0) return;  // about to become a catalog
  const auto header = database.header();
  constexpr char kMagic[] = "SQLite format 3";
  if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0) refuse(path, "a file that is no SQLite database");
  if (number_at(header, kApplicationAt) != kApplicationId) refuse(path, "a SQLite database of another program");
  const int64_t format = number_at(header, kFormatAt);
  if (format < 0 || format > kFormats) refuse(path, fmt::format("a damaged file: schema format {}", format));
  check_version(path, number_at(header, kVersionAt));
}

/// "outcome.fits" for every column of every table.
std::set<std::string> columns_of(const Database& database) {
  Statement rows = database.prepare(
      "SELECT tables.name || '.' || columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS "
      "columns "
      "WHERE tables.type = 'table'");
  std::set<std::string> names;
  while (rows.step()) names.insert(rows.text(0));
  return names;
}

/// What the steps up to `version` make, which every file of that version has.
std::set<std::string> columns_of_version(int64_t version) {
  const Database database = Database::in_memory();
  for (int64_t step = 0; step < version; ++step) database.execute(kSteps[step].tables);
  return columns_of(database);
}

void check_content(const Database& database, const std::filesystem::path& path, int64_t version) {
  const std::string finding = database.text("PRAGMA quick_check(1)");
  if (finding != "ok") refuse(path, "a damaged file: " + finding);
  const std::set<std::string> present = columns_of(database);
  for (const std::string& column : columns_of_version(version))
    if (!present.contains(column)) refuse(path, "a damaged file: it has no column " + column);
}

/// Several processes may come here at once: the first one does the work, the others find it done.
void bring_up_to_date(const Database& database, const std::filesystem::path& path) {
  if (database.integer("PRAGMA user_version") == kSchemaVersion) return;
  Transaction transaction(database);
  const int64_t version = database.integer("PRAGMA user_version");
  check_version(path, version);
  if (version == 0 && !columns_of(database).empty()) refuse(path, "a damaged file: tables, but no schema version");
  // All tables first: rows are read and written as today's records, which have today's columns.
  for (int64_t step = version; step < kSchemaVersion; ++step) database.execute(kSteps[step].tables);
  for (int64_t step = version; step < kSchemaVersion; ++step)
    if (kSteps[step].rewrite != nullptr) kSteps[step].rewrite(database);
  database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kSchemaVersion));
  transaction.commit();
}

/// A matter of speed only: where others keep the file from changing its journal, the next one to open it will.
void choose_journal(const Database& database, const std::filesystem::path& path) {
  const std::string wanted = is_on_network(path) ? "delete" : "wal";
  if (database.text("PRAGMA journal_mode") == wanted) return;
  try {
    database.execute("PRAGMA journal_mode = " + wanted);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E3301) throw;
  }
}

Database open_for_writing(const std::filesystem::path& path, const Database::Options& options) {
  check_kind(path);
  if (path.has_parent_path()) base::make_folder(path.parent_path());
  Database database(path, options);
  check_header(database, path);
  MEGACPP_REQUIRE(!database.is_read_only(), E3001,
                  {.where = path.string(),
                   .got = "a file that may only be read",
                   .wanted = "a file that may be written",
                   .next = "allow writing, or name another file with --catalog or MEGACPP_CATALOG"});
  bring_up_to_date(database, path);
  check_content(database, path, kSchemaVersion);
  choose_journal(database, path);
  database.execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL");
  return database;
}

Database up_to_date_copy(Database copy, const std::filesystem::path& path) {
  bring_up_to_date(copy, path);
  copy.execute("PRAGMA query_only = ON");
  return copy;
}

/// A file without tables is what a process leaves that was killed while it made the catalog: nothing is known yet.
Database open_for_reading(const std::filesystem::path& path, const Database::Options& options) {
  check_kind(path);
  Database database(path, options);
  check_header(database, path);
  if (database.size() == 0) return up_to_date_copy(Database::in_memory(), path);
  database.execute("PRAGMA query_only = ON");
  const int64_t version = database.integer("PRAGMA user_version");
  check_version(path, version);
  check_content(database, path, version);
  return version == kSchemaVersion ? std::move(database) : up_to_date_copy(database.copy_in_memory(), path);
}

}  // namespace

Database open_catalog_file(const std::filesystem::path& path, const Database::Options& options) {
  if (options.access == Access::write) return open_for_writing(path, options);
  try {
    return open_for_reading(path, options);
  } catch (const base::Error& error) {
    // The log of a catalog needs a file beside it, which a folder that is not ours cannot get. Without such a file
    // everything is in the catalog itself, and nobody who could not make one writes to it.
    std::error_code ignored;
    const bool has_log = std::filesystem::exists(path.string() + "-wal", ignored);
    if (error.code() != base::Code::E3001 || options.immutable || has_log) throw;
    return open_for_reading(path, {.access = Access::read, .wait = options.wait, .immutable = true});
  }
}

}  // namespace megacpp::catalog
