// SPDX-License-Identifier: Apache-2.0
// Files that are no good catalog are refused and keep every byte; folders that cannot be written can still be read.
#include "megacpp/hardware/catalog/schema.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "tests/support/errors.h"
#include "tests/support/plain_user.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

namespace fs = std::filesystem;
using testing_support::error_of;
using testing_support::PlainUser;
using testing_support::problem_of;
using testing_support::TemporaryFolder;

constexpr Database::Options kRead = {.access = Access::read};

const Signature kRecorded = {.model = "tiny"};
std::string of_version(int64_t version) { return "PRAGMA user_version = " + std::to_string(version); }
const std::string kNewer = of_version(kSchemaVersion + 1);

fs::path with_one_outcome(const TemporaryFolder& folder) {
  Catalog::open(folder / "c.sqlite").record({.signature = kRecorded, .at = "2026-11-15T17:00:00Z"});
  return folder / "c.sqlite";
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// Opening for writing and for reading raises `code`, and neither changes or adds a file.
void expect_refused(const fs::path& file, base::Code code) {
  const std::string before = base::read_file(file);
  const auto around = names_in(file.parent_path());
  for (const Database::Options& options : {Database::Options{}, kRead}) {
    const base::Problem problem = problem_of(code, [&] { Catalog::open(file, options); });
    EXPECT_EQ(problem.where, file);
    EXPECT_NE(problem.next.find("--catalog"), std::string::npos) << problem.next;
    EXPECT_EQ(base::read_file(file), before);
    EXPECT_EQ(names_in(file.parent_path()), around);
  }
  EXPECT_EQ(Catalog::open_or_none(file).why_not->code(), code);
}

TEST(SchemaTest, OpeningMakesACatalogWithItsFolders) {
  const TemporaryFolder folder;
  const fs::path file = folder / "new/folders/c.sqlite";
  EXPECT_TRUE(Catalog::open(file).entries().empty());
  const Database database = open_catalog_file(file, {});
  EXPECT_EQ(database.integer("PRAGMA application_id"), kApplicationId);
  EXPECT_EQ(database.integer("PRAGMA user_version"), kSchemaVersion);
  EXPECT_EQ(database.text("PRAGMA journal_mode"), "wal");
}

// Who makes a catalog and is killed meanwhile leaves such files.
TEST(SchemaTest, AFileWithoutTablesIsAnEmptyCatalogToReadAndBecomesOneToWrite) {
  const TemporaryFolder folder;
  base::write_file_atomically(folder / "c.sqlite", "");
  Database(folder / "header.sqlite", {}).execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  for (const char* name : {"c.sqlite", "header.sqlite"}) {
    const std::string before = base::read_file(folder / name);
    EXPECT_TRUE(Catalog::open(folder / name, kRead).entries().empty()) << name;
    EXPECT_FALSE(Catalog::open(folder / name, kRead).remembered(kRecorded)) << name;
    EXPECT_EQ(base::read_file(folder / name), before) << name;
    EXPECT_TRUE(Catalog::open(folder / name).entries().empty()) << name;
    EXPECT_EQ(open_catalog_file(folder / name, kRead).integer("PRAGMA user_version"), kSchemaVersion) << name;
  }
}

TEST(SchemaTest, OtherFilesAreRefusedUntouched) {
  const TemporaryFolder folder;
  base::write_file_atomically(folder / "text", "steps: 3\n");
  expect_refused(folder / "text", base::Code::E1701);
  base::write_file_atomically(folder / "long", std::string(100'000, 'x'));
  expect_refused(folder / "long", base::Code::E1701);
}

TEST(SchemaTest, FoldersAndDevicesAreRefused) {
  const TemporaryFolder folder;
  for (const fs::path& path : {folder.path(), fs::path("/dev/null")})
    for (const Database::Options& options : {Database::Options{}, kRead})
      problem_of(base::Code::E1701, [&] { Catalog::open(path, options); });
  EXPECT_FALSE(fs::exists("/dev/null-journal"));
}

TEST(SchemaTest, DatabasesOfOtherProgramsAreRefusedUntouched) {
  const TemporaryFolder folder;
  Database(folder / "other.sqlite", {}).execute("PRAGMA journal_mode = wal; CREATE TABLE signature (id)");
  expect_refused(folder / "other.sqlite", base::Code::E1701);
}

TEST(SchemaTest, ACatalogOfAnotherVersionIsRefusedUntouched) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  for (const int64_t version : {int64_t{1}, kSchemaVersion - 1, kSchemaVersion + 1}) {
    Database(file, {}).execute(of_version(version));
    expect_refused(file, base::Code::E1702);
    const base::Problem problem = problem_of(base::Code::E1702, [&] { Catalog::open(file); });
    EXPECT_EQ(problem.got, "schema version " + std::to_string(version));
    EXPECT_TRUE(problem.next.starts_with(version > kSchemaVersion ? "use the newer megacpp" : "move it away"));
  }
  Database(file, {}).execute(of_version(kSchemaVersion));
  EXPECT_EQ(Catalog::open(file).entries().size(), 1U) << "nothing was lost meanwhile";
}

// The newer version may still be in the log of a process that has the file open.
TEST(SchemaTest, ANewerVersionInTheLogIsSeen) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  const Database newer(file, {});
  newer.execute(kNewer);
  problem_of(base::Code::E1702, [&] { Catalog::open(file); });
  problem_of(base::Code::E1702, [&] { Catalog::open(file, kRead); });
  EXPECT_EQ(newer.integer("PRAGMA user_version"), kSchemaVersion + 1);
}

TEST(SchemaTest, DamagedCatalogsAreRefusedUntouched) {
  const TemporaryFolder folder;
  const std::string whole = base::read_file(with_one_outcome(folder));
  ASSERT_GT(whole.size(), 8192U);
  const TemporaryFolder damaged;
  base::write_file_atomically(damaged / "half", whole.substr(0, whole.size() / 2 / 4096 * 4096));
  expect_refused(damaged / "half", base::Code::E1701);
  base::write_file_atomically(damaged / "start", whole.substr(0, 100));
  expect_refused(damaged / "start", base::Code::E1701);
  // Page after page overwritten with noise.
  for (size_t page = 0; page < whole.size() / 4096; ++page) {
    std::string noise = whole;
    for (size_t i = page == 0 ? 100 : 0; i < 4096; ++i) noise[page * 4096 + i] = static_cast<char>(i * 37 + page);
    base::write_file_atomically(damaged / "noise", noise);
    expect_refused(damaged / "noise", base::Code::E1701);
  }
}

TEST(SchemaTest, ADamagedByteOfTheHeaderIsHarmlessOrRefused) {
  const TemporaryFolder folder;
  const std::string whole = base::read_file(with_one_outcome(folder));
  const fs::path file = folder / "damaged";
  for (size_t at = 0; at < Database::kHeaderSize; ++at) {
    for (const int value : {0x00, 0x05, 0x7F, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      base::write_file_atomically(file, damaged);
      try {
        Catalog::open(file, kRead).entries();
      } catch (const base::Error& error) {
        EXPECT_TRUE(error.code() == base::Code::E1701 || error.code() == base::Code::E1702)
            << "byte " << at << " as " << value << ": " << error.what();
      }
    }
  }
}

TEST(SchemaTest, AnImpossibleVersionIsRefusedUntouched) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  for (const char* version : {"-1", "-2147483648", "0"}) {
    Database(file, {}).execute(std::string("PRAGMA user_version = ") + version);
    expect_refused(file, base::Code::E1701);
  }
}

TEST(SchemaTest, ACatalogThatLostATableOrAColumnIsRefusedUntouched) {
  struct Row {
    const char* loss;
    std::string named;
  };
  for (const auto& [loss, named] :
       {Row{"DROP TABLE start", "start.after_outcome"}, Row{"ALTER TABLE outcome DROP COLUMN note", "outcome.note"},
        Row{"ALTER TABLE sample RENAME TO samples", "sample.at"}}) {
    const TemporaryFolder folder;
    const fs::path file = with_one_outcome(folder);
    Database(file, {}).execute(loss);
    expect_refused(file, base::Code::E1701);
    const base::Problem problem = problem_of(base::Code::E1701, [&] { Catalog::open(file); });
    EXPECT_EQ(problem.got, "a damaged file: it has no column " + named);
  }
}

// Files that grew by columns have these last.
TEST(SchemaTest, ColumnsMayStandInAnyOrder) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  Database(file, {}).execute(
      "ALTER TABLE signature DROP COLUMN hardware; ALTER TABLE signature ADD COLUMN hardware TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE outcome DROP COLUMN rung; ALTER TABLE outcome ADD COLUMN rung INTEGER NOT NULL DEFAULT 3");
  const Entry entry = Catalog::open(file).entries().at(0);
  EXPECT_EQ(entry.signature, kRecorded);
  EXPECT_EQ(entry.outcomes.at(0).at, "2026-11-15T17:00:00Z");
  EXPECT_EQ(entry.outcomes.at(0).rung, 3);
}

// People may look at their file in their own ways.
TEST(SchemaTest, WhatOthersAddedDoesNotMatter) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  Database(file, {}).execute("CREATE VIEW failures AS SELECT * FROM outcome WHERE NOT fits; CREATE TABLE notes (text)");
  EXPECT_EQ(Catalog::open(file).entries().size(), 1U);
}

TEST(SchemaTest, AFileThatMayOnlyBeReadIsReadAndNotWritten) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(file, fs::perms(0444));
  const PlainUser plain;
  const MaybeCatalog none = Catalog::open_or_none(file);
  EXPECT_FALSE(none.catalog);
  ASSERT_TRUE(none.why_not);
  EXPECT_EQ(none.why_not->code(), base::Code::E3001);
  EXPECT_EQ(none.why_not->exit_status(), 1);
  EXPECT_EQ(Catalog::open(file, kRead).entries().size(), 1U);
}

TEST(SchemaTest, AFolderThatMayOnlyBeReadIsReadAndNotWritten) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  fs::permissions(file, fs::perms(0666));
  fs::permissions(folder.path(), fs::perms(0555));
  {
    const PlainUser plain;
    EXPECT_EQ(error_of([&] { Catalog::open(file); }).code(), base::Code::E3001);
    EXPECT_EQ(error_of([&] { Catalog::open(folder / "other.sqlite"); }).code(), base::Code::E3001);
    EXPECT_EQ(error_of([&] { Catalog::open(folder / "deeper/c.sqlite"); }).code(), base::Code::E3001);
    EXPECT_EQ(Catalog::open(file, kRead).entries().size(), 1U);
  }
  fs::permissions(folder.path(), fs::perms(0755));
  EXPECT_EQ(Catalog::open(file).entries().size(), 1U);
}

TEST(SchemaTest, ReadingNeverWrites) {
  const TemporaryFolder folder;
  const fs::path file = with_one_outcome(folder);
  Catalog catalog = Catalog::open(file, kRead);
  problem_of(base::Code::E3001, [&] { catalog.forget_all(); });
  EXPECT_EQ(catalog.entries().size(), 1U);
  problem_of(base::Code::E3001, [&] { Catalog::open(folder / "missing.sqlite", kRead); });
  EXPECT_FALSE(fs::exists(folder / "missing.sqlite"));
}

}  // namespace
}  // namespace megacpp::catalog
