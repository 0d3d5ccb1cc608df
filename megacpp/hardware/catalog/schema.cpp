// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/schema.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/fields.h"
#include "megacpp/hardware/catalog/location.h"
#include "megacpp/hardware/catalog/record_rows.h"

namespace megacpp::catalog {
namespace {

/// A table of rows of a record about a signature, and what a row has beside these.
template <base::Record T>
std::string table_about_signature(const char* name, const char* more = "") {
  return fmt::format(R"(
CREATE TABLE {0} (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  signature INTEGER NOT NULL REFERENCES signature (id) ON DELETE CASCADE,{2}
  {1}
);
CREATE INDEX {0}_signature ON {0} (signature);
)",
                     name, typed_columns_of<T>(), more);
}

/// Key and subject are hashes of the other columns, the subject of those without the build.
std::string tables() {
  return fmt::format(R"(
CREATE TABLE signature (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  subject TEXT NOT NULL,
  {}
);
CREATE INDEX signature_subject ON signature (subject);
)",
                     typed_columns_of<Signature>()) +
         table_about_signature<Outcome>("outcome") +
         table_about_signature<Start>("start", " after_outcome INTEGER NOT NULL,") +
         table_about_signature<Sample>("sample") + "CREATE INDEX sample_lane ON sample (lane, quantity);";
}

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

/// Version 0 is of files whose tables are still to be made.
void check_version(const std::filesystem::path& path, int64_t version) {
  if (version < 0) refuse(path, fmt::format("a damaged file: schema version {}", version));
  const bool is_newer = version > kSchemaVersion;
  MEGACPP_REQUIRE(version == 0 || version == kSchemaVersion, E1702,
                  {.where = path.string(),
                   .got = fmt::format("schema version {}", version),
                   .wanted = fmt::format("{}, the one this program knows", kSchemaVersion),
                   .next = std::string(is_newer ? "use the newer megacpp"
                                                : "move it away, which makes room for a new one; the megacpp that "
                                                  "wrote it still reads it") +
                           ", or name another file with --catalog or MEGACPP_CATALOG"});
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
std::set<std::string> present_columns(const Database& database) {
  Statement rows = database.prepare(
      "SELECT tables.name || '.' || columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS "
      "columns "
      "WHERE tables.type = 'table'");
  std::set<std::string> names;
  while (rows.step()) names.insert(rows.text(0));
  return names;
}

std::set<std::string> known_columns() {
  const Database database = Database::in_memory();
  database.execute(tables());
  return present_columns(database);
}

void check_content(const Database& database, const std::filesystem::path& path) {
  const std::string finding = database.text("PRAGMA quick_check(1)");
  if (finding != "ok") refuse(path, "a damaged file: " + finding);
  const std::set<std::string> present = present_columns(database);
  for (const std::string& column : known_columns())
    if (!present.contains(column)) refuse(path, "a damaged file: it has no column " + column);
}

/// Several processes may come here at once: the first one does the work, the others find it done.
void make_tables(const Database& database, const std::filesystem::path& path) {
  if (database.integer("PRAGMA user_version") == kSchemaVersion) return;
  Transaction transaction(database);
  const int64_t version = database.integer("PRAGMA user_version");
  check_version(path, version);
  if (version == kSchemaVersion) return;
  if (!present_columns(database).empty()) refuse(path, "a damaged file: tables, but no schema version");
  database.execute(tables());
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
  make_tables(database, path);
  check_content(database, path);
  choose_journal(database, path);
  database.execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL");
  return database;
}

Database empty_catalog() {
  Database database = Database::in_memory();
  database.execute(tables() + fmt::format("PRAGMA user_version = {}; PRAGMA query_only = ON", kSchemaVersion));
  return database;
}

/// A file without tables is what a process leaves that was killed while it made the catalog: nothing is known yet.
Database open_for_reading(const std::filesystem::path& path, const Database::Options& options) {
  check_kind(path);
  Database database(path, options);
  check_header(database, path);
  if (database.size() == 0) return empty_catalog();
  database.execute("PRAGMA query_only = ON");
  const int64_t version = database.integer("PRAGMA user_version");
  check_version(path, version);
  if (version == 0) {
    if (!present_columns(database).empty()) refuse(path, "a damaged file: tables, but no schema version");
    return empty_catalog();
  }
  check_content(database, path);
  return database;
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
