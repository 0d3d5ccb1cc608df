// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/database.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

using testing_support::problem_of;
using testing_support::TemporaryFolder;

Database with_table(const std::filesystem::path& path, std::chrono::milliseconds wait = std::chrono::seconds(10)) {
  Database database(path, {.wait = wait});
  database.execute("CREATE TABLE IF NOT EXISTS t (number INTEGER, real REAL, words TEXT)");
  return database;
}

TEST(DatabaseTest, ValuesComeBackAsTheyWereBound) {
  const TemporaryFolder folder;
  const Database database = with_table(folder / "a?b=1 %20#.sqlite");  // means something in an address of SQLite
  EXPECT_TRUE(std::filesystem::exists(folder / "a?b=1 %20#.sqlite"));
  constexpr int64_t kLarge = std::numeric_limits<int64_t>::max();
  const std::string words("a\0b'; DROP TABLE t", 18);
  database.prepare("INSERT INTO t VALUES (?, ?, ?)").bind(kLarge, 0.1, words).run();
  database.prepare("INSERT INTO t VALUES (?, ?, ?)")
      .bind(std::nullopt, std::numeric_limits<double>::quiet_NaN(), "")
      .run();
  Statement rows = database.prepare("SELECT number, real, words FROM t ORDER BY rowid");
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.integer(0), kLarge);
  EXPECT_EQ(rows.real(1), 0.1);
  EXPECT_EQ(rows.text(2), words);
  ASSERT_TRUE(rows.step());
  EXPECT_EQ(rows.maybe_integer(0), std::nullopt);
  EXPECT_EQ(rows.maybe_real(1), std::nullopt);
  EXPECT_EQ(rows.text(2), "");
  EXPECT_FALSE(rows.step());
}

TEST(DatabaseTest, ATransactionIsUndoneUnlessCommitted) {
  const TemporaryFolder folder;
  const Database database = with_table(folder / "a.sqlite");
  {
    const Transaction transaction(database);
    database.execute("INSERT INTO t VALUES (1, 1, '')");
  }
  EXPECT_EQ(database.integer("SELECT count(*) FROM t"), 0);
  {
    Transaction transaction(database);
    database.execute("INSERT INTO t VALUES (1, 1, '')");
    transaction.commit();
  }
  EXPECT_EQ(database.integer("SELECT count(*) FROM t"), 1);
}

TEST(DatabaseTest, AFileLockedForTooLongSaysSo) {
  const TemporaryFolder folder;
  const Database one = with_table(folder / "a.sqlite");
  const Database other = with_table(folder / "a.sqlite", std::chrono::milliseconds(20));
  const Transaction held(one);
  const auto problem = problem_of(base::Code::E3301, [&] { const Transaction second(other); });
  EXPECT_EQ(problem.where, std::filesystem::canonical(folder / "a.sqlite"));
  EXPECT_NE(problem.next.find("--catalog"), std::string::npos);
}

TEST(DatabaseTest, WrongStatementsAreOurDefect) {
  const TemporaryFolder folder;
  const Database database = with_table(folder / "a.sqlite");
  problem_of(base::Code::E9001, [&] { database.prepare("SELEKT 1"); });
  problem_of(base::Code::E9001, [&] { database.execute("SELECT no_such FROM t"); });
}

TEST(DatabaseTest, AFolderIsNoDatabase) {
  const TemporaryFolder folder;
  problem_of(base::Code::E3001, [&] { const Database database(folder.path(), {}); });
}

}  // namespace
}  // namespace megacpp::catalog
