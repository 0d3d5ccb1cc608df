// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/run_page.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <fmt/format.h>

#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/evidence/report/line_chart.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/clean_receipt.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::report {
namespace {

using receipt::Receipt;
using testing_support::clean_receipt;
using testing_support::count_of;
using testing_support::has;
using testing_support::seeded_receipt;
using testing_support::steady_reports;

std::string log_text(const std::vector<train::StepReport>& reports) {
  std::string text;
  for (const train::StepReport& report : reports) text += train::line_of(report);
  return text;
}

/// What every page keeps, whatever it is made of.
void expect_whole(const std::string& page) {
  EXPECT_EQ(testing_support::unbalanced_tag(page), "");
  EXPECT_EQ(testing_support::outside_load(page), "");
  for (const char* part : {"\"nan", "\"-nan", "\"inf", "\"-inf", ",nan", ",-nan", ",inf", ",-inf"})
    EXPECT_FALSE(has(page, part)) << part;
}

class RunPageTest : public testing::Test {
 protected:
  /// The folder of a run that left this.
  std::string run(const std::string& name, const Receipt& receipt, const std::string& log) {
    base::make_folder(folder_ / name);
    base::write_file_atomically(folder_ / name / "recipe.yaml", receipt.recipe);
    receipt::write_receipt(receipt, folder_ / name);
    if (!log.empty()) base::write_file_atomically(folder_ / name / "log.jsonl", log);
    return (folder_ / name).string();
  }

  std::string seeded(const testing_support::SeededRun& seeded_run) {
    return run(seeded_run.name, seeded_receipt(seeded_run), log_text(steady_reports(20)));
  }

  /// Of runs that have something to show.
  static std::string page_of(const std::vector<std::string>& named) {
    const std::vector<RunRecord> runs = read_runs(named);
    std::string page = run_page(runs, comparisons_of(runs));
    expect_whole(page);
    return page;
  }

  static void expect_parts(const std::string& page, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_TRUE(has(page, part)) << part;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(RunPageTest, AFinishedRunHasItsPicturesAndItsReceipt) {
  Receipt receipt = clean_receipt();
  receipt.times.parts =
      receipt::Parts{.arithmetic = 0.006, .memory = 0.002, .links = 0.001, .bubble = 0, .other = 0.001};
  const std::string page = page_of({run("done", receipt, log_text(steady_reports(150)))});
  expect_parts(page, {"<title>done</title>",
                      "Verdict: comparable",
                      "Which topology?",
                      "Did a gain survive",
                      "finished after 150 of 150 steps",
                      "<h2>Loss</h2>",
                      "done: step 149, loss 4.01",
                      "steady from step 16",
                      "<h2>Throughput</h2>",
                      "done: step 1, tokens/s 204800",
                      "arithmetic 6.00 ms",
                      "Memory by chip, family and time",
                      "chip 0: data 0 and 1 alike",
                      "limit 8.00 KiB",
                      "measured 3.94 KiB",
                      "A 512 B",
                      "padding 3.50 KiB",
                      "Planned bytes along a step by family, of chip 0: data 0",
                      "all: part of the step, % 75, bytes 4.00 KiB",
                      "A: part of the step, % 25, bytes 512 B",
                      "Collectives",
                      "over data",
                      "all_reduce 2.00 KiB",
                      "Ladder",
                      "needs no less",
                      "Expert load",
                      "expert 1 75.0 %",
                      "block01: step 149, busiest over mean 1.5",
                      "there is no lock file",
                      "What ran: the header",
                      "hardware.topology",
                      "steady       134 steps",
                      "<pre>name: tiny\n</pre>"});
  EXPECT_FALSE(has(page, "could not be read")) << "nothing is missing";
  EXPECT_FALSE(has(page, "Comparison")) << "of one run";
}

TEST_F(RunPageTest, AKilledRunIsShownUpToItsLastWholeLine) {
  Receipt receipt = clean_receipt();
  receipt.ending.kind = receipt::EndingKind::running;
  receipt.times = {};
  const std::string log = log_text(steady_reports(60)) + "{\"step\": 60, \"lo";
  const std::string page = page_of({run("gone", receipt, log)});
  expect_parts(page,
               {"Verdict: not comparable: ended early", "killed after 60 of 150 steps", "gone: step 59, loss 4.91",
                "1 of 61 lines are broken or half-written", "could not be read, or not whole"});
}

TEST_F(RunPageTest, ARunWithoutEnoughMemorySaysWhatWasWantedAndTried) {
  Receipt receipt = clean_receipt();
  receipt.times = {};
  receipt.losses = {};
  receipt.experts.clear();
  receipt.ending.kind = receipt::EndingKind::out_of_memory;
  receipt.ending.steps = 0;
  receipt::Failure failure{.code = "E2004", .where = "loading", .got = "too little memory"};
  failure.oom_class = "runtime allocation";
  failure.chip = "chip 3: data 1";
  failure.wanted_bytes = int64_t{12} << 30;
  failure.limit_bytes = int64_t{8} << 30;
  receipt.ending.failure = failure;
  receipt.ladder.tried.push_back({.rung = 2, .name = "recompute", .outcome = "not enough"});
  const std::string page = page_of({run("full", receipt, "")});
  expect_parts(page, {"out of memory after 0 of 150 steps", "E2004 (runtime allocation) loading: too little memory",
                      "chip 3: data 1", "12.00 GiB", "8.00 GiB", "not enough", "No step with a loss was logged",
                      "No run measured the parts", "Memory by chip, family and time"});
  EXPECT_FALSE(has(page, "could not be read")) << "no step was made, so no log is missing";
}

TEST_F(RunPageTest, RunsThatDifferInOneThingHaveAResult) {
  const std::string before = seeded({.name = "a"});
  const std::string after = seeded({.name = "b", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.05});
  const std::string page = page_of({before, after});
  expect_parts(page, {"<title>2 runs</title>", "<h3>b against a</h3>", "banner good\">Result: b takes",
                      "% less time a token than a", "Axis: layout.tensor_parallel: 1 -&gt; 2 (topology)",
                      "Cause: arithmetic", "a: step 19", "b: step 19", "<h2>Run a</h2>", "<h2>Run b</h2>"});
}

TEST_F(RunPageTest, ConfoundedRunsHaveNoWinnerAndTheListOfWhatDiffers) {
  const std::vector<std::string> two = {"layout.tensor_parallel=2", "train.batch=4"};
  const std::string before = seeded({.name = "a"}), after = seeded({.name = "b", .overrides = two, .arithmetic = 0.05});
  const std::string page = page_of({before, after});
  expect_parts(page, {"Confounded: no winner. 2 things differ", "Axis: layout.tensor_parallel", "Axis: train.batch",
                      "<td>batch.batch</td>"});
  for (const char* part : {"Result:", "less time", "more time", "Cause:"}) EXPECT_FALSE(has(page, part)) << part;
}

TEST_F(RunPageTest, EveryKindOfRunIsComparedWithTheFirst) {
  const std::string first = seeded({.name = "a1"}), repeat = seeded({.name = "a2", .seed = 2});
  const std::string other = seeded({.name = "b", .overrides = {"train.batch=4"}}),
                    third = seeded({.name = "c", .overrides = {"train.batch=2"}});
  const std::vector<compare::Comparison> comparisons = comparisons_of(read_runs({first, other, repeat, third}));
  ASSERT_EQ(comparisons.size(), 2U);
  EXPECT_EQ(comparisons[0].baseline_runs, (std::vector<std::string>{"a1", "a2"}));
  EXPECT_EQ(comparisons[1].other_runs, std::vector<std::string>{"c"});
  expect_parts(page_of({first, other, repeat, third}), {"b against a1, a2", "c against a1, a2", "by itself"});
  EXPECT_TRUE(comparisons_of(read_runs({first, repeat, first})).empty()) << "repeats of one launch alone";
  EXPECT_TRUE(comparisons_of(read_runs({first})).empty());
}

TEST_F(RunPageTest, NamesFromFilesAreNoMarkup) {
  const std::string markup = "<script>alert(1)</script>\"'><img>";
  Receipt receipt = clean_receipt();
  receipt.run = receipt.recipe = receipt.header.model.name = receipt.header.program.layout = markup;
  receipt.memory.planned[0].place = receipt.memory.planned[0].items[0].family = markup;
  receipt.memory.planned[0].items[0].role = receipt.memory.measured[0].place = markup;
  receipt.collectives->at(0).kind = receipt.collectives->at(0).axes = markup;
  receipt.ladder.tried[0].reason = receipt.experts[0].block = markup;
  receipt.lineage.lock_file = markup;
  receipt::LineageItem& item = receipt.lineage.items.emplace_back();
  item.name = item.state = item.live = markup;
  receipt::Failure& failure = receipt.ending.failure.emplace();
  failure.code = failure.where = failure.got = failure.next = markup;
  std::vector<train::StepReport> reports = steady_reports(20);
  for (train::StepReport& report : reports) report.experts[0].block = markup;
  const std::string hostile = run("<script>\xff&quot;", receipt, log_text(reports) + markup + "\n");
  const std::string plain_run = seeded({.name = "a"});
  const std::string alone = page_of({hostile}), beside = page_of({hostile, plain_run});
  for (const std::string& page : {alone, beside}) {
    EXPECT_FALSE(has(page, "<script") || has(page, "<img"));
    EXPECT_TRUE(has(page, "&lt;script&gt;\\xff&amp;quot;")) << "the name of the folder";
  }
}

TEST_F(RunPageTest, LossesThatAreNoNumbersAreCountedAndNotDrawn) {
  std::string log;
  for (int step = 0; step < 10; ++step)
    log +=
        fmt::format("{{\"step\": {}, \"loss\": {}, \"steps\": 1, \"seconds\": 0.5, \"tokens\": 8}}\n", step, 5 - step);
  int step = 10;
  for (const char* loss : {"NaN", "Infinity", "-Infinity", "null"})
    log += fmt::format("{{\"step\": {}, \"loss\": {}, \"seconds\": 0}}\n", step++, loss);
  const std::string page = page_of({run("burst", clean_receipt(), log)});
  expect_parts(page, {"burst: 4 of 14 logged steps have no finite loss", "burst: step 9, loss -4"});
  EXPECT_FALSE(has(page, "burst: step 10, loss"));
  const std::string none = page_of({run("none", clean_receipt(), "{\"step\": 0, \"loss\": NaN}\n")});
  EXPECT_TRUE(has(none, "No step with a loss was logged."));
}

TEST_F(RunPageTest, AHundredThousandLinesMakeAPageOfTheSameSize) {
  std::string log;
  for (int step = 0; step < 100'000; ++step)
    log += fmt::format("{{\"step\":{},\"loss\":{}.5,\"seconds\":1,\"tokens\":{}}}\n", step, step % 7, 100 + step % 11);
  const std::vector<RunRecord> runs = read_runs({run("long", clean_receipt(), log)});
  ASSERT_EQ(runs.at(0).log.size(), 100'000U);
  const std::string page = run_page(runs, {});
  expect_whole(page);
  EXPECT_LT(page.size(), 200'000U);
  EXPECT_LE(count_of(page, "class=\"hit\""), 2 * kMostPoints);
  EXPECT_TRUE(has(page, "long: step 99999")) << "the last one is kept";
}

TEST_F(RunPageTest, WhatIsBrokenNewerOrMissingIsNamedAndTheRestShown) {
  const std::string good = run("good", clean_receipt(), log_text(steady_reports(150)));
  const std::string cut = run("cut", clean_receipt(), log_text(steady_reports(30)));
  base::write_file_atomically(cut + "/receipt.json", receipt::to_text(clean_receipt()).substr(0, 300));
  const std::string newer = run("newer", clean_receipt(), log_text(steady_reports(30)));
  base::write_file_atomically(newer + "/receipt.json", "{\"schema\": 99}");
  const std::string silent = run("silent", clean_receipt(), "");
  const std::string odd = run("odd", clean_receipt(), "");
  base::make_folder(odd + "/log.jsonl");
  const std::vector<RunRecord> runs = read_runs({good, cut, newer, silent, odd, (folder_ / "none").string()});
  ASSERT_EQ(runs.size(), 6U);
  EXPECT_TRUE(runs[0].problems.empty());
  for (size_t i = 1; i < runs.size(); ++i) EXPECT_EQ(runs[i].problems.size(), 1U) << runs[i].name;
  EXPECT_TRUE(runs[5].is_empty());
  const std::string page = run_page(runs, comparisons_of(runs));
  expect_whole(page);
  expect_parts(page, {"5 of the files could not be read", "E1801", "E1802", "E1803", "E1008", "no log of its steps",
                      "cut: step 29", "newer: step 29", "good: step 149", "from the log alone"});
}

TEST_F(RunPageTest, AFolderOfRunsAndAReceiptAloneAreTaken) {
  run("a", clean_receipt(), log_text(steady_reports(30)));
  const std::string second = run("b", clean_receipt(), log_text(steady_reports(30)));
  EXPECT_EQ(read_runs({folder_.path().string()}).size(), 2U);
  const std::vector<RunRecord> beside = read_runs({second + "/receipt.json"});
  EXPECT_EQ(beside.at(0).name, "b");
  EXPECT_EQ(beside.at(0).log.size(), 30U);
  receipt::write_receipt(clean_receipt(), folder_.path());
  std::filesystem::rename(folder_ / "receipt.json", folder_ / "kept.json");
  const std::vector<RunRecord> alone = read_runs({(folder_ / "kept.json").string()});
  EXPECT_TRUE(alone.at(0).receipt.has_value());
  EXPECT_EQ(alone.at(0).problems.size(), 1U) << "it has no log";
}

TEST_F(RunPageTest, RunsOfOneNameAreToldApart) {
  const std::string path = run("a", clean_receipt(), log_text(steady_reports(30)));
  const std::vector<RunRecord> runs = read_runs({path, path});
  EXPECT_EQ(runs.at(0).name, path);
  EXPECT_EQ(runs.at(1).name, path + " (2)");
  EXPECT_EQ(runs.at(1).receipt->run, runs.at(1).name);
}

TEST_F(RunPageTest, OfVeryManyRunsTheFirstAreShown) {
  std::vector<RunRecord> runs;
  for (size_t i = 0; i < kMostCurves + 6; ++i) {
    RunRecord record{.name = fmt::format("run{:02}", i), .path = "x"};
    record.receipt = clean_receipt(20);
    record.log = steady_reports(20);
    runs.push_back(record);
  }
  const std::string page = run_page(runs, {});
  expect_whole(page);
  expect_parts(page, {"The first 24 of 30 runs", "<td>run29</td>", "<h2>Run run23</h2>"});
  EXPECT_FALSE(has(page, "<h2>Run run24</h2>"));
}

}  // namespace
}  // namespace megacpp::report
