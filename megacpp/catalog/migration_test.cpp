// SPDX-License-Identifier: Apache-2.0
// Catalogs as every released version left them: testdata/v<version>.sql. All are brought up to
// date without loss, and reading an old one changes nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/base/file.h"
#include "megacpp/catalog/catalog.h"
#include "megacpp/catalog/schema.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

struct Counts {
  int64_t outcomes, starts, samples;
  bool operator==(const Counts&) const = default;
};

Counts counts_of(const Database& database) {
  return {database.integer("SELECT count(*) FROM outcome"), database.integer("SELECT count(*) FROM start"),
          database.integer("SELECT count(*) FROM sample")};
}

class MigrationTest : public testing::TestWithParam<int64_t> {
 protected:
  /// A file of that version; `more` is executed on it, too.
  fs::path stored(int64_t version, const std::string& more = "") {
    const fs::path file = folder_ / ("v" + std::to_string(version) + ".sqlite");
    const fs::path dump = fs::path(MEGACPP_SOURCE_DIR) / "megacpp/catalog/testdata" / file.stem().concat(".sql");
    const Database database(file, {});
    database.execute("PRAGMA journal_mode = wal");
    database.execute(base::read_file(dump) + more);
    EXPECT_EQ(database.integer("PRAGMA user_version"), version);
    before_ = counts_of(database);
    return file;
  }

  static bool has_old_words(const Signature& signature) {
    return signature.layout.find("lane=") != std::string::npos || signature.hardware.find("drill") != std::string::npos;
  }

  /// Every row that was there is there, in today's words, and found by today's keys.
  void expect_whole(const Catalog& catalog) const {
    Counts now = {};
    const std::vector<Entry> entries = catalog.entries();
    EXPECT_GE(entries.size(), 7U);
    for (const Entry& entry : entries) {
      now.outcomes += static_cast<int64_t>(entry.outcomes.size());
      now.starts += static_cast<int64_t>(entry.starts.size());
      now.samples += static_cast<int64_t>(entry.samples.size());
      EXPECT_FALSE(has_old_words(entry.signature)) << canonical_text(entry.signature);
      if (entry.outcomes.empty()) continue;
      const std::optional<Remembered> known = catalog.remembered(entry.signature);
      ASSERT_TRUE(known) << "the key is of the texts: " << canonical_text(entry.signature);
      EXPECT_FALSE(known->other_build);
      EXPECT_EQ(known->last->at, entry.outcomes.back().at);
    }
    EXPECT_EQ(now, before_);
  }

  TemporaryFolder folder_;
  Counts before_ = {};
};

TEST_P(MigrationTest, WritingBringsItUpToDateWithoutLoss) {
  const fs::path file = stored(GetParam());
  expect_whole(Catalog::open(file));
  EXPECT_EQ(Database(file, {}).integer("PRAGMA user_version"), kSchemaVersion);
  expect_whole(Catalog::open(file));
}

TEST_P(MigrationTest, ReadingShowsItUpToDateAndLeavesTheFile) {
  const fs::path file = stored(GetParam());
  const std::string before = base::read_file(file);
  expect_whole(Catalog::open(file, {.access = Access::read}));
  EXPECT_EQ(base::read_file(file), before);
  EXPECT_EQ(Database(file, {}).integer("PRAGMA user_version"), GetParam());
}

// A new version comes with a stored file of it.
INSTANTIATE_TEST_SUITE_P(EveryVersion, MigrationTest, testing::Range(int64_t{1}, kSchemaVersion + 1));

TEST_F(MigrationTest, AnOldLaunchThatRanInsteadIsStillRemembered) {
  const Catalog catalog = Catalog::open(stored(1));
  int64_t started = 0, faults = 0;
  for (Entry entry : catalog.entries()) {
    faults += entry.signature.hardware.find(" fault chip 1 step 1") != std::string::npos;
    if (entry.starts.empty()) continue;
    entry.signature.build.code_version = "another";
    const std::optional<Remembered> known = catalog.remembered(entry.signature);
    ASSERT_TRUE(known && known->start && known->other_build);
    EXPECT_EQ(known->other_build->code_version, "0.1.0") << "it is said who learnt it";
    EXPECT_EQ(known->start->settings, (std::vector<Setting>{{"train.batch", "4"}, {"train.micro_steps", "2"}}));
    ++started;
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(faults, 1);
}

// Samples of both placements stood in one lane: each goes to that of its launch.
TEST_F(MigrationTest, LanesOfBackendsWithSeveralPlacementsAreToldApart) {
  const Catalog catalog = Catalog::open(
      stored(2,
             "UPDATE signature SET features = 'gated placement=xla flag=a' WHERE id = 7;"
             "INSERT INTO sample SELECT 100, 9, at, 'xla v6e', quantity, parts, measured FROM sample WHERE id = 9;"
             "INSERT INTO sample SELECT 101, 1, at, 'xla v6e', quantity, parts, 3 FROM sample WHERE id = 9;"));
  using Lanes = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(catalog.measured_lanes(), (Lanes{{"cpu host", kPeakBytes},
                                             {"cpu host", kStepSeconds},
                                             {"xla host placement=xla", kStepSeconds},
                                             {"xla v6e placement=megacpp", kStepSeconds}}));
  EXPECT_EQ(catalog.samples("xla v6e placement=megacpp", kStepSeconds).size(), 2U) << "the default where none is said";
}

TEST_F(MigrationTest, ThePhaseOfAFailureIsInItsRowAndInItsReport) {
  for (const int64_t version : {2, 3, 4, 5}) {
    const Catalog catalog = Catalog::open(stored(version), {.access = Access::read});
    const std::optional<Entry> entry = catalog.entry(8);
    ASSERT_TRUE(entry && !entry->outcomes.empty()) << version;
    EXPECT_EQ(entry->outcomes[0].phase, "planning") << version;
    ASSERT_TRUE(entry->outcomes[0].report) << version;
    EXPECT_EQ(entry->outcomes[0].report->phase, "planning") << version;
  }
}

// Some wrote today's words into a file of version 1, under the key that the older words get now: both are the same
// launch.
TEST_F(MigrationTest, SignaturesThatBecomeTheSameKeepTheRowsOfBoth) {
  const fs::path other = stored(1);
  const std::string key = key_text(Catalog::open(other).entry(1)->signature);
  fs::remove(other);
  const fs::path file =
      stored(1, "INSERT INTO signature SELECT 100, '" + key +
                    "', 's', code_version, hardware, model, model_hash, "
                    "replace(layout, 'lane=', 'policy='), features, shape FROM signature WHERE id = 1;"
                    "INSERT INTO outcome SELECT 100, 100, at, fits, oom_class, stage, rung, chip, predicted_bytes, "
                    "measured_bytes, "
                    "limit_bytes, predicted_seconds, measured_seconds, 'twin' FROM outcome WHERE signature = 1;");
  const Catalog catalog = Catalog::open(file);
  expect_whole(catalog);
  EXPECT_FALSE(catalog.entry(100));
  EXPECT_EQ(catalog.entry(1)->outcomes.size(), 2U);
  EXPECT_EQ(catalog.entry(1)->outcomes.back().note, "twin");
}

}  // namespace
}  // namespace megacpp::catalog
