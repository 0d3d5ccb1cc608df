// SPDX-License-Identifier: Apache-2.0
// Launches share one catalog: several write at once, readers read meanwhile, and one that is killed harms nobody.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/catalog/schema.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

namespace fs = std::filesystem;

/// Runs `body` in a process of its own, which ends with status 0 unless it throws.
template <typename Body>
pid_t start_process(const Body& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

Outcome outcome(const std::string& layout, const std::string& note) {
  return {.signature = {.model = "m", .layout = layout}, .at = "2026-11-15T17:00:00Z", .note = note};
}

void expect_sound(const fs::path& file) { EXPECT_EQ(open_catalog_file(file, {}).text("PRAGMA integrity_check"), "ok"); }

TEST(CatalogProcessesTest, ManyMakeTheFileAndWriteAtOnce) {
  constexpr int kProcesses = 6, kRows = 25;
  const testing_support::TemporaryFolder folder;
  const fs::path file = folder / "new/c.sqlite";
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(start_process([&] {
      for (int row = 0; row < kRows; ++row) {  // opened anew each time, as launches do
        Catalog catalog = Catalog::open(file, {.wait = std::chrono::minutes(2)});
        catalog.record(outcome("shared", std::to_string(p)));
        catalog.record(outcome("of process " + std::to_string(p), std::to_string(row)));
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  expect_sound(file);
  const std::vector<Entry> entries = Catalog::open(file).entries();
  ASSERT_EQ(entries.size(), kProcesses + 1U);
  for (const Entry& entry : entries) {
    const bool shared = entry.signature.layout == "shared";
    ASSERT_EQ(entry.outcomes.size(), static_cast<size_t>(shared ? kProcesses * kRows : kRows));
    for (int row = 0; !shared && row < kRows; ++row)
      EXPECT_EQ(entry.outcomes[static_cast<size_t>(row)].note, std::to_string(row));
  }
}

TEST(CatalogProcessesTest, AReaderSeesWholeTransactionsWhileAnotherWrites) {
  const testing_support::TemporaryFolder folder;
  const fs::path file = folder / "c.sqlite";
  Catalog::open(file).record(outcome("first", ""));
  const Database writer = open_catalog_file(file, {});
  Transaction transaction(writer);
  writer.execute("UPDATE outcome SET note = 'changed'");
  const pid_t reader = start_process([&] {
    const Catalog catalog = Catalog::open(file, {.access = Access::read, .wait = std::chrono::milliseconds(50)});
    if (catalog.entries().at(0).outcomes.at(0).note != "") throw std::runtime_error("half a transaction was read");
  });
  EXPECT_EQ(status_of(reader), 0);
  transaction.commit();
  EXPECT_EQ(Catalog::open(file).entries()[0].outcomes[0].note, "changed");
}

TEST(CatalogProcessesTest, KilledInATransactionLeavesNoneOfIt) {
  const testing_support::TemporaryFolder folder;
  const fs::path file = folder / "c.sqlite";
  Catalog::open(file).record(outcome("kept", ""));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = start_process([&] {
    const Database database = open_catalog_file(file, {});
    database.execute("PRAGMA cache_size = 2");  // so that pages of the open transaction reach the log
    const Transaction transaction(database);
    for (int i = 0; i < 2000; ++i)
      database.execute(
          "INSERT INTO sample (signature, at, lane, quantity, parts, measured) VALUES (1, '', '', '', '', 1)");
    if (::write(ends[1], "x", 1) != 1) return;
    ::pause();
  });
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  expect_sound(file);
  const std::vector<Entry> entries = Catalog::open(file).entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].outcomes.size(), 1U);
  EXPECT_TRUE(entries[0].samples.empty());
}

TEST(CatalogProcessesTest, KilledAtAnyInstantLeavesWholeRowsInOrder) {
  const testing_support::TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    const fs::path file = folder / (std::to_string(round % 10) + ".sqlite");  // new files and used ones
    const pid_t child = start_process([&] {
      for (int row = 0;; ++row) Catalog::open(file).record(outcome(std::to_string(round), std::to_string(row)));
    });
    ::usleep(static_cast<useconds_t>(1500 * round));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
    expect_sound(file);
    Catalog catalog = Catalog::open(file);
    for (const Entry& entry : catalog.entries())
      for (size_t row = 0; row < entry.outcomes.size(); ++row) EXPECT_EQ(entry.outcomes[row].note, std::to_string(row));
    catalog.record(outcome("after", "0"));
    catalog.forget_all();
  }
}

}  // namespace
}  // namespace megacpp::catalog
