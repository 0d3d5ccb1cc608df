// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/store.h"

#include <gtest/gtest.h>

#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/receipt/header_fields.h"
#include "megacpp/evidence/receipt/text.h"
#include "megacpp/evidence/receipt/throttling.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/clean_receipt.h"
#include "tests/support/errors.h"
#include "tests/support/file_calls.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::receipt {
namespace {

using testing_support::clean_receipt;
using testing_support::problem_of;
using testing_support::steady_reports;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

/// Recomputes the checksum, as somebody who knows how would.
std::string signed_again(const std::string& text) {
  const size_t begin = text.find("\"checksum\": \"") + 13;
  std::string content = text;
  const size_t line = content.find("\"checksum\"");
  content.erase(line, content.find('\n', line) + 1 - line);
  const base::Json json = base::parse_json(content, base::Code::E1801, "test");
  return std::string(text).replace(begin, 16, base::hash_text(base::to_text(json)));
}

class ReceiptStoreTest : public testing::Test {
 protected:
  /// A run that logs, as one that goes on or was killed has left it.
  std::filesystem::path make_run(EndingKind kind) {
    Receipt receipt = clean_receipt();
    receipt.ending.kind = kind;
    receipt.ending.ended_at.clear();
    receipt.times = {};
    base::make_folder(run_);
    write_receipt(receipt, run_);
    base::write_file_atomically(run_ / "recipe.yaml", "name: tiny\n");
    std::string log;
    for (const train::StepReport& report : steady_reports(60)) log += train::line_of(report);
    base::write_file_atomically(run_ / "log.jsonl", log + "{\"step\": 60, \"lo");
    return run_;
  }

  const testing_support::TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_ / "run";
};

TEST_F(ReceiptStoreTest, AReceiptIsSyncedBeforeItGetsItsName) {
  base::make_folder(run_);
  const testing_support::FileCalls calls;
  write_receipt(clean_receipt(), run_);
  EXPECT_EQ(calls.renamed(), std::vector<std::string>{kReceiptFile});
  EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
}

// The receipt is gone, and the log says that steps took no time.
TEST_F(ReceiptStoreTest, RatesOfStepsWithoutTimesAreNotKnown) {
  make_run(EndingKind::finished);
  std::filesystem::remove(run_ / kReceiptFile);
  std::filesystem::copy_file(MEGACPP_SOURCE_DIR "/recipes/nam52-tiny.yaml", run_ / "recipe.yaml",
                             std::filesystem::copy_options::overwrite_existing);
  std::string log;
  for (train::StepReport report : steady_reports(60)) {
    report.seconds = 0;
    report.step_seconds.assign(report.step_seconds.size(), 0.0);
    log += train::line_of(report);
  }
  base::write_file_atomically(run_ / "log.jsonl", log);
  const std::string text = report_text(receipt_of(run_));
  for (const char* number : {"inf", "nan"}) EXPECT_EQ(text.find(number), std::string::npos) << text;
  EXPECT_NE(text.find("steady       not known"), std::string::npos) << text;
  EXPECT_NE(text.find("the log has no times of steps"), std::string::npos) << text;
}

TEST_F(ReceiptStoreTest, WhatIsWrittenIsReadBack) {
  const std::string text = to_text(clean_receipt());
  EXPECT_EQ(to_text(receipt_from(text, "test")), text);
  const std::string empty = to_text(Receipt{});
  EXPECT_EQ(to_text(receipt_from(empty, "test")), empty);
}

TEST_F(ReceiptStoreTest, EditsAreNoticed) {
  const std::string text = to_text(clean_receipt());
  for (const auto& [what, by] : {std::pair("\"steps\":150", "\"steps\":151"), std::pair("host:2", "host:4"),
                                 std::pair("\"checksum\": \"", "\"checksum\": \"0")})
    problem_of(base::Code::E1801, [&] { receipt_from(replaced(text, what, by), "test"); });
  EXPECT_NO_THROW(receipt_from(replaced(text, ",\n", " ,\n\n"), "test")) << "spaces are no content";
}

TEST_F(ReceiptStoreTest, TruncatedAndOtherFilesAreNamed) {
  const std::string text = to_text(clean_receipt());
  for (size_t size = 0; size + 2 < text.size(); size += 97)
    problem_of(base::Code::E1801, [&] { receipt_from(text.substr(0, size), "test"); });
  for (const char* other : {"[]", "null", "{}", "{\"schema\": \"1\"}", "{\"schema\": 1}", "{\"schema\": 0}"})
    problem_of(base::Code::E1801, [&] { receipt_from(other, "test"); });
}

TEST_F(ReceiptStoreTest, ANewerSchemaIsNamedBeforeAnythingElse) {
  const std::string text = replaced(to_text(clean_receipt()), "\"schema\": 1", "\"schema\": 2");
  problem_of(base::Code::E1802, [&] { receipt_from(text, "test"); });
}

TEST_F(ReceiptStoreTest, MembersOfAnotherKindAreNamed) {
  const std::string text = to_text(clean_receipt());
  for (const auto& [what, by] :
       {std::pair("\"requested_steps\":150", "\"requested_steps\":\"many\""),
        std::pair("\"kind\":\"finished\"", "\"kind\":\"exploded\""), std::pair("\"experts\": [", "\"experts\": [3,")}) {
    const std::string spoiled = signed_again(replaced(text, what, by));
    problem_of(base::Code::E1801, [&] { receipt_from(spoiled, "test"); });
  }
  EXPECT_NO_THROW(receipt_from(signed_again(replaced(text, "\"run\":", "\"later\": 3,\n\"run\":")), "test"));
}

TEST_F(ReceiptStoreTest, TheVerdictIsThatOfTheContent) {
  const std::string text = to_text(clean_receipt());
  const std::string crowned = replaced(text, "\"reasons\":[]", "\"reasons\":[{\"name\":\"x\",\"sentence\":\"x\"}]");
  EXPECT_TRUE(receipt_from(signed_again(crowned), "test").verdict.is_comparable());
}

TEST_F(ReceiptStoreTest, AKilledRunGetsItsReceiptFromTheNextReader) {
  make_run(EndingKind::running);
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::killed);
  EXPECT_EQ(receipt.ending.steps, 60);
  EXPECT_EQ(receipt.times.steady->steps, 44);
  ASSERT_EQ(receipt.verdict.reasons.size(), 1U);
  EXPECT_EQ(receipt.verdict.reasons[0].name, "ended early");
  EXPECT_EQ(base::read_file(run_ / kReceiptFile), to_text(receipt)) << "and stays";
}

TEST_F(ReceiptStoreTest, AReaderThatChangesNothingLeavesAKilledRunAsItIs) {
  make_run(EndingKind::running);
  const std::string before = base::read_file(run_ / kReceiptFile);
  const Receipt receipt = receipt_of(run_, Completion::not_stored);
  EXPECT_EQ(receipt.ending.kind, EndingKind::killed);
  EXPECT_EQ(receipt.ending.steps, 60);
  EXPECT_EQ(base::read_file(run_ / kReceiptFile), before);
  EXPECT_FALSE(std::filesystem::exists(run_ / "lock"));
}

TEST_F(ReceiptStoreTest, ARunThatGoesOnIsReadAndLeftAlone) {
  make_run(EndingKind::running);
  const launch::RunDirectory owner = launch::RunDirectory::open(run_);
  const std::string before = base::read_file(run_ / kReceiptFile);
  const Receipt receipt = receipt_of(run_);
  EXPECT_EQ(receipt.ending.kind, EndingKind::running);
  EXPECT_EQ(receipt.ending.steps, 60);
  EXPECT_EQ(base::read_file(run_ / kReceiptFile), before);
}

// The machine had less free memory when the run was loaded than when it was planned.
TEST_F(ReceiptStoreTest, AChipHasOneLimit) {
  Receipt receipt = clean_receipt();
  receipt.memory.measured[0].limit_bytes = 8000;
  const Receipt read = receipt_from(to_text(receipt), "here");
  EXPECT_EQ(read.memory.planned[0].limit_bytes, 8000);
  EXPECT_EQ(read.memory.measured[0].limit_bytes, 8000);
  receipt.memory.measured[0].limit_bytes.reset();
  EXPECT_EQ(receipt_from(to_text(receipt), "here").memory.planned[0].limit_bytes, 8192);
}

TEST_F(ReceiptStoreTest, WhatIsNoRunHasNone) {
  problem_of(base::Code::E1803, [&] { receipt_of(folder_ / "none"); });
  problem_of(base::Code::E1803, [&] { receipt_of(folder_.path()); });
}

TEST_F(ReceiptStoreTest, AReceiptAloneIsReadAsAFile) {
  make_run(EndingKind::finished);
  EXPECT_EQ(receipt_of(run_ / kReceiptFile).run, clean_receipt().run);
  const std::string text = base::read_file(run_ / kReceiptFile);
  base::write_file_atomically(folder_ / "copy.json", text);
  EXPECT_EQ(receipt_of(folder_ / "copy.json").run, clean_receipt().run);
  base::write_file_atomically(folder_ / "copy.json", text.substr(0, text.size() / 2));
  problem_of(base::Code::E1801, [&] { receipt_of(folder_ / "copy.json"); });
}

TEST_F(ReceiptStoreTest, WhatIsNoReceiptIsNotCalledADamagedOne) {
  base::write_file_atomically(folder_ / "plan.json", "{\"recipe\": \"tiny\", \"chips\": 1}\n");
  const base::Problem problem = problem_of(base::Code::E1803, [&] { receipt_of(folder_ / "plan.json"); });
  EXPECT_EQ(problem.next.find("delete"), std::string::npos) << problem.next;
}

TEST_F(ReceiptStoreTest, EveryReceiptHasTheSameHeaderFields) {
  const std::vector<HeaderField> whole = header_fields(clean_receipt().header), none = header_fields({});
  ASSERT_EQ(whole.size(), none.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].name, none[i].name);
  EXPECT_EQ(whole.at(0), (HeaderField{.name = "hardware.name", .value = "host:2"}));
  EXPECT_EQ(whole.at(5).name, "hardware.threads");
  EXPECT_EQ(whole.at(5).value, "") << "absent";
}

TEST_F(ReceiptStoreTest, PeopleReadTheFiveAnswersFirst) {
  const std::string text = report_text(receipt_from(to_text(clean_receipt()), "test"));
  size_t after = 0;
  for (const char* part :
       {"topology     host:2: 2 chips", "compile      ", "workload     256 tokens", "path         Yes", "target       ",
        "verdict      comparable", "steady       134 steps", "MFU          "}) {
    const size_t at = text.find(part, after);
    ASSERT_NE(at, std::string::npos) << part << "\n" << text;
    after = at;
  }
  const std::string unknown = report_text(receipt_from(to_text(Receipt{}), "test"));
  EXPECT_NE(unknown.find("steady       not known"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("MFU          not known"), std::string::npos) << unknown;
}

TEST_F(ReceiptStoreTest, ThrottlingIsCountedWhereTheSystemDoes) {
  EXPECT_FALSE(count_throttling(folder_.path()));
  for (const char* core : {"cpu0", "cpu1"}) {
    base::make_folder(folder_ / core / "thermal_throttle");
    base::write_file_atomically(folder_ / core / "thermal_throttle" / "core_throttle_count", "3\n");
  }
  EXPECT_EQ(count_throttling(folder_.path()), 6);
  for (const char* core : {"cpu0", "cpu1"})
    base::write_file_atomically(folder_ / core / "thermal_throttle" / "package_throttle_count", "5\n");
  EXPECT_EQ(count_throttling(folder_.path()), 11) << "both are of one package";
}

}  // namespace
}  // namespace megacpp::receipt
