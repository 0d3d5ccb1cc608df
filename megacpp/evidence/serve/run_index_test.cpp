// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/run_index.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/launch/run_directory.h"
#include "tests/support/served_runs.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::serve {
namespace {

using receipt::EndingKind;
using testing_support::seeded_receipt;
using testing_support::unended;
using testing_support::write_run;

class RunIndexTest : public testing::Test {
 protected:
  RunSummary summary_named(const std::string& name) {
    for (const RunSummary& run : index_.list().runs)
      if (run.name == name) return run;
    ADD_FAILURE() << "no run " << name;
    return {};
  }
  void write_text(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text);
  }

  const testing_support::TemporaryFolder folder_;
  RunIndex index_{folder_.path()};
};

TEST_F(RunIndexTest, ListsTheRunsThatThereAre) {
  EXPECT_TRUE(index_.list().runs.empty());
  EXPECT_TRUE(RunIndex(folder_ / "none").list().runs.empty()) << "no folder, no runs";
  write_run(folder_.path(), seeded_receipt({.name = "a"}));
  base::make_folder(folder_ / "no run");
  std::filesystem::create_symlink("a", folder_ / "latest");
  const RunList list = index_.list();
  ASSERT_EQ(list.runs.size(), 1U);
  EXPECT_EQ(list.unread, 0U);
  const RunSummary& run = list.runs[0];
  EXPECT_EQ(run.name, "a");
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.ending, EndingKind::finished);
  EXPECT_EQ(run.model, "nam56r-tiny");
  EXPECT_EQ(run.steps, 205);
  EXPECT_GT(*run.tokens_per_second, 0);
  EXPECT_EQ(index_.outlines().size(), 1U);
}

TEST_F(RunIndexTest, TheRunStartedLastComesFirst) {
  for (const char* name : {"a", "c", "b"}) {
    write_run(folder_.path(), seeded_receipt({.name = name}));
    // Files of one instant may have the same time.
    std::filesystem::last_write_time(folder_ / name / "recipe.yaml",
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(*name));
  }
  std::string order;
  for (const RunSummary& run : index_.list().runs) order += run.name;
  EXPECT_EQ(order, "cba");
}

void set_start(const std::filesystem::path& run, int seconds) {
  std::filesystem::last_write_time(run / "recipe.yaml",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(seconds));
}

TEST_F(RunIndexTest, ASweepHasItsRunsAndIsNone) {
  write_run(folder_.path(), seeded_receipt({.name = "a"}));
  write_run(folder_.path(), seeded_receipt({.name = "b"}));
  const std::filesystem::path runs = folder_ / "sweep" / "runs";
  for (const char* name : {"1-2-1", "2-4-1"}) write_run(runs, seeded_receipt({.name = name}));
  write_text("sweep/recipe.yaml", "name: a\n");
  write_text("sweep/sweep.json", R"({"axis": "train.batch", "values": ["2", "4"], "repeats": 3, "trials": [
    {"value": 0, "repeat": 0, "run": "1-2-1", "status": 0, "error": ""}]})");
  set_start(folder_ / "a", 1);
  set_start(runs / "1-2-1", 2);
  set_start(folder_ / "b", 3);
  set_start(runs / "2-4-1", 4);
  const RunList list = index_.list();
  std::string order;
  for (const RunSummary& run : list.runs) order += run.name + "(" + run.sweep + ") ";
  EXPECT_EQ(order, "sweep/runs/2-4-1(sweep) sweep/runs/1-2-1(sweep) b() a() ");
  ASSERT_EQ(list.sweeps.size(), 1U);
  EXPECT_EQ(list.sweeps[0].name, "sweep");
  EXPECT_EQ(list.sweeps[0].axis, "train.batch=2,4");
  EXPECT_EQ(list.sweeps[0].progress, "1 of 6 runs");
  ASSERT_TRUE(index_.details("sweep/runs/1-2-1"));
  EXPECT_EQ(index_.details("sweep/runs/1-2-1")->problem, "");
  for (const char* none : {"sweep", "sweep/runs", "sweep/1-2-1", "sweep/runs/..", "sweep/../a"})
    EXPECT_FALSE(index_.details(none)) << none;
  const std::string before = list.stamp;
  write_text("sweep/sweep.json", "{");
  EXPECT_NE(index_.list().stamp, before);
  EXPECT_NE(index_.list().sweeps[0].problem, "");
  RunIndex of_sweep(folder_ / "sweep");
  EXPECT_EQ(of_sweep.list().runs.size(), 2U);
  EXPECT_TRUE(of_sweep.details("runs/2-4-1"));
}

TEST_F(RunIndexTest, ADamagedRunHidesNoOther) {
  for (const char* name : {"cut", "empty", "fifo", "foreign", "link", "newer", "sound"})
    write_run(folder_.path(), seeded_receipt({.name = name}));
  const std::string text = base::read_file(folder_ / "cut" / "receipt.json");
  write_text("cut/receipt.json", text.substr(0, text.size() / 2));
  write_text("empty/receipt.json", "");
  write_text("foreign/receipt.json", "[1, 2]");
  write_text("newer/receipt.json", "{\"schema\": 99, \"checksum\": \"0\"}");
  std::filesystem::remove(folder_ / "link" / "receipt.json");
  std::filesystem::create_symlink("/etc/passwd", folder_ / "link" / "receipt.json");
  std::filesystem::remove(folder_ / "fifo" / "receipt.json");
  ASSERT_EQ(::mkfifo((folder_ / "fifo" / "receipt.json").c_str(), 0600), 0);
  std::map<std::string, std::string> problems;
  for (const RunSummary& run : index_.list().runs) problems[run.name] = run.problem;
  ASSERT_EQ(problems.size(), 7U);
  for (const char* name : {"cut", "empty", "foreign"}) EXPECT_EQ(problems[name].rfind("E1801 ", 0), 0U) << name;
  EXPECT_EQ(problems["newer"].rfind("E1802 ", 0), 0U) << problems["newer"];
  EXPECT_EQ(problems["link"], "receipt.json is no regular file");
  EXPECT_EQ(problems["fifo"], "receipt.json is no regular file");
  EXPECT_EQ(problems["sound"], "");
  EXPECT_EQ(index_.outlines().size(), 1U);
  EXPECT_EQ(index_.details("link")->problem, problems["link"]);
  EXPECT_EQ(index_.details("cut")->problem, problems["cut"]);
}

TEST_F(RunIndexTest, ARunIsFollowedUntilItsProcessIsGone) {
  write_run(folder_.path(), unended(seeded_receipt({.name = "a"})), 5);
  {
    const launch::RunDirectory owner = launch::RunDirectory::open(folder_ / "a");
    EXPECT_EQ(summary_named("a").ending, EndingKind::running);
    EXPECT_EQ(summary_named("a").steps, 5);
    const std::string before = index_.list().stamp, own = *index_.stamp_of("a");
    EXPECT_EQ(index_.list().stamp, before) << "nothing changed";
    std::ofstream(folder_ / "a" / "log.jsonl", std::ios::app) << testing_support::log_lines(5, 8) << "{\"st";
    EXPECT_NE(index_.list().stamp, before);
    EXPECT_NE(*index_.stamp_of("a"), own);
    EXPECT_EQ(summary_named("a").steps, 8);
    EXPECT_EQ(index_.details("a")->points.size(), 8U);
    EXPECT_EQ(index_.details("a")->receipt.ending.kind, EndingKind::running);
  }
  const std::string stored = base::read_file(folder_ / "a" / "receipt.json");
  EXPECT_EQ(summary_named("a").ending, EndingKind::killed);
  EXPECT_EQ(index_.details("a")->receipt.ending.kind, EndingKind::killed);
  EXPECT_EQ(base::read_file(folder_ / "a" / "receipt.json"), stored) << "the dashboard writes nothing";
}

TEST_F(RunIndexTest, NamesAreLookedUpAndNeverMadeIntoPaths) {
  write_run(folder_.path(), seeded_receipt({.name = "a"}));
  write_run(folder_.path() / "a", seeded_receipt({.name = "inner"}));
  std::filesystem::create_symlink("a", folder_ / "latest");
  EXPECT_TRUE(index_.details("a"));
  for (const std::string& name : {std::string(""), std::string("."), std::string(".."), std::string("a/inner"),
                                  std::string("./a"), std::string("a/"), std::string("latest"), std::string("a\0", 2),
                                  folder_.path().string() + "/a", std::string("A")}) {
    EXPECT_FALSE(index_.details(name)) << name;
    EXPECT_FALSE(index_.stamp_of(name)) << name;
  }
}

TEST_F(RunIndexTest, ManyRunsAreReadAsTimeAllows) {
  const std::string text = receipt::to_text(seeded_receipt({.name = "x", .steps = 20}));
  for (int i = 0; i < 40; ++i) {
    base::make_folder(folder_ / std::to_string(i));
    write_text(std::to_string(i) + "/recipe.yaml", "name: x\n");
    write_text(std::to_string(i) + "/receipt.json", text);
  }
  const RunList first = index_.list(std::chrono::milliseconds(0));
  EXPECT_EQ(first.runs.size(), 40U);
  EXPECT_EQ(first.unread, 40U) << "names are there at once";
  RunList later = first;
  for (int i = 0; i < 1'000 && later.unread > 0; ++i) later = index_.list(std::chrono::milliseconds(20));
  EXPECT_EQ(later.unread, 0U);
  EXPECT_NE(later.stamp, first.stamp);
  EXPECT_EQ(index_.list(std::chrono::milliseconds(0)).unread, 0U) << "and they are kept";
  std::filesystem::remove_all(folder_ / "7");
  EXPECT_EQ(index_.list().runs.size(), 39U);
  EXPECT_EQ(index_.outlines().size(), 39U);
}

}  // namespace
}  // namespace megacpp::serve
