// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/catalog.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::catalog {
namespace {

class CatalogTest : public testing::Test {
 protected:
  static Signature launch(const std::string& layout, const std::string& version = "0.1.0") {
    return {.build = {.code_version = version},
            .hardware = "v6e:4x4",
            .model = "nam56r-tiny",
            .model_hash = "00ff",
            .layout = layout,
            .features = "z_loss",
            .shape = "batch=8"};
  }
  static Sample sample(const Signature& signature, double predicted, double measured) {
    return {.signature = signature,
            .at = "2026-11-15T17:00:00Z",
            .lane = "xla v6e",
            .quantity = kPeakBytes,
            .parts = {{"weights", predicted}},
            .measured = measured};
  }

  testing_support::TemporaryFolder folder_;
  Catalog catalog_ = Catalog::open(folder_ / "c.sqlite");
};

TEST_F(CatalogTest, AnUnknownSignatureIsNotRemembered) {
  EXPECT_FALSE(catalog_.remembered(launch("data=2")));
  catalog_.record({.signature = launch("data=4"), .at = "t"});
  EXPECT_FALSE(catalog_.remembered(launch("data=2")));
}

TEST_F(CatalogTest, WhatAnotherBuildLearntIsRememberedAsItsOwn) {
  catalog_.record({.signature = launch("data=4", "0.1.0+aa"), .at = "t1", .fits = false});
  catalog_.record({.signature = launch("data=4", "0.1.0+bb"), .at = "t2"});
  const std::optional<Remembered> others = catalog_.remembered(launch("data=4", "0.1.0+cc"));
  ASSERT_TRUE(others && others->other_build);
  EXPECT_EQ(others->other_build->code_version, "0.1.0+bb") << "the last";
  EXPECT_EQ(others->last->at, "t2");
  EXPECT_FALSE(catalog_.remembered(launch("data=4", "0.1.0+aa"))->other_build) << "its own comes first";
  Signature plugin = launch("data=4", "0.1.0+bb");
  plugin.build.platform = "plugin cpu 0.6 (build 77)";
  EXPECT_TRUE(catalog_.remembered(plugin)->other_build) << "another plugin is another, too";
}

TEST_F(CatalogTest, AnOutcomeComesBackWhole) {
  const Outcome failure = {.signature = launch("data=2"),
                           .at = "2026-11-15T17:00:00Z",
                           .fits = false,
                           .oom_class = "compile",
                           .phase = "compile",
                           .rung = 2,
                           .chip = "chip 3 (data 1)",
                           .predicted_bytes = 33'000'000'000,
                           .limit_bytes = 33'546'039'296,
                           .predicted_seconds = 0.25,
                           .note = "used 34.1G of 31.2G"};
  catalog_.record(failure);
  const Outcome last = *Catalog::open(catalog_.path()).remembered(failure.signature)->last;
  EXPECT_EQ(last.signature, failure.signature);
  EXPECT_EQ(last.at, failure.at);
  EXPECT_FALSE(last.fits);
  EXPECT_EQ(last.oom_class, "compile");
  EXPECT_EQ(last.phase, "compile");
  EXPECT_EQ(last.rung, 2);
  EXPECT_EQ(last.chip, failure.chip);
  EXPECT_EQ(last.predicted_bytes, failure.predicted_bytes);
  EXPECT_EQ(last.measured_bytes, std::nullopt);
  EXPECT_EQ(last.limit_bytes, failure.limit_bytes);
  EXPECT_EQ(last.predicted_seconds, 0.25);
  EXPECT_EQ(last.measured_seconds, std::nullopt);
  EXPECT_EQ(last.note, failure.note);
}

TEST_F(CatalogTest, TheLastOutcomeAndHowOftenEachCame) {
  const Signature requested = launch("data=2");
  catalog_.record({.signature = requested, .at = "1", .measured_seconds = 0.5});
  catalog_.record({.signature = requested, .at = "2", .fits = false});
  catalog_.record({.signature = requested, .at = "3"});
  const Remembered remembered = *catalog_.remembered(requested);
  EXPECT_EQ(remembered.last->at, "3");
  EXPECT_EQ(remembered.fits, 2);
  EXPECT_EQ(remembered.fails, 1);
  EXPECT_EQ(remembered.step_seconds, 0.5);
}

// Times are for people: what was written last counts, though the clock went back.
TEST_F(CatalogTest, AClockThatGoesBackwardsChangesNothing) {
  const Signature requested = launch("data=2");
  catalog_.record({.signature = requested, .at = "2026-11-16T12:00:00Z"});
  catalog_.record({.signature = requested, .at = "2026-11-16T11:00:00Z", .fits = false});
  catalog_.remember_start(requested, {.at = "2026-11-16T10:00:00Z", .rung = 2});
  catalog_.remember_start(requested, {.at = "2026-11-16T09:00:00Z", .rung = 3});
  const Remembered remembered = *catalog_.remembered(requested);
  EXPECT_FALSE(remembered.last->fits);
  EXPECT_EQ(remembered.fits, 1);
  ASSERT_TRUE(remembered.start);
  EXPECT_EQ(remembered.start->rung, 3);
  Sample earlier = sample(requested, 10, 11), later = sample(requested, 10, 12);
  earlier.at = "2026-11-16T12:00:00Z";
  later.at = "2026-11-16T08:00:00Z";
  catalog_.record_calibration(earlier);
  catalog_.record_calibration(later);
  EXPECT_EQ(catalog_.samples("xla v6e", kPeakBytes).at(0).measured, 12);
  EXPECT_EQ(catalog_.entries().at(0).outcomes.size(), 2U);
}

TEST_F(CatalogTest, TheSecondLaunchStartsWhereTheFirstEnded) {
  const Signature requested = launch("data=2");
  catalog_.record({.signature = requested, .at = "1", .fits = false});
  catalog_.record({.signature = launch("data=2 smaller"), .at = "2", .rung = 1});
  const Start start = {.at = "2",
                       .rung = 1,
                       .settings = {{"train.micro_steps", "2"}, {"train.batch", "4"}},
                       .reasons = {"activations overflow by 3 GiB", "a \"quoted\" reason"}};
  catalog_.remember_start(requested, start);
  const Remembered remembered = *catalog_.remembered(requested);
  ASSERT_TRUE(remembered.start);
  EXPECT_EQ(remembered.start->at, "2");
  EXPECT_EQ(remembered.start->rung, 1);
  EXPECT_EQ(remembered.start->settings, start.settings);
  EXPECT_EQ(remembered.start->reasons, start.reasons);
  EXPECT_FALSE(remembered.last->fits);
  EXPECT_FALSE(catalog_.remembered(launch("data=2 smaller"))->start);

  catalog_.remember_start(requested, {.at = "3", .rung = 4});
  EXPECT_EQ(catalog_.remembered(requested)->start->rung, 4);
  catalog_.record({.signature = requested, .at = "4", .fits = false});
  EXPECT_TRUE(catalog_.remembered(requested)->start);
  catalog_.record({.signature = requested, .at = "5"});
  EXPECT_FALSE(catalog_.remembered(requested)->start) << "it runs as requested, nothing else is needed";
}

TEST_F(CatalogTest, AStartAloneIsRemembered) {
  catalog_.remember_start(launch("data=2"), {.at = "1", .rung = 3});
  const Remembered remembered = *catalog_.remembered(launch("data=2"));
  EXPECT_FALSE(remembered.last);
  EXPECT_EQ(remembered.start->rung, 3);
}

TEST_F(CatalogTest, SamplesAreTheNewestOfEachSubject) {
  catalog_.record_calibration(sample(launch("a"), 10, 11));
  catalog_.record_calibration(sample(launch("b"), 10, 12));
  catalog_.record_calibration(sample(launch("a", "0.2.0"), 10, 13));
  Sample other = sample(launch("c"), 10, 99);
  other.lane = "xla v5e";
  catalog_.record_calibration(other);
  other.lane = "xla v6e";
  other.quantity = kStepSeconds;
  catalog_.record_calibration(other);
  const std::vector<Sample> samples = catalog_.samples("xla v6e", kPeakBytes);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].signature, launch("b"));
  EXPECT_EQ(samples[1].signature, launch("a", "0.2.0"));
  EXPECT_EQ(samples[1].measured, 13);
  EXPECT_EQ(samples[1].parts[0].first, "weights");
  EXPECT_EQ(samples[1].parts[0].second, 10);
}

TEST_F(CatalogTest, TheOwnSampleOfASubjectComesBeforeANewerOneOfAnotherBuild) {
  catalog_.record_calibration(sample(launch("a", "own"), 10, 11));
  catalog_.record_calibration(sample(launch("a", "other"), 10, 12));
  catalog_.record_calibration(sample(launch("b", "other"), 10, 13));
  const std::vector<Sample> samples = catalog_.samples("xla v6e", kPeakBytes, {.code_version = "own"});
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].measured, 11);
  EXPECT_EQ(samples[1].measured, 13);
  EXPECT_EQ(catalog_.correction("xla v6e", kPeakBytes, {.code_version = "own"}).own_samples, 1U);
  EXPECT_EQ(catalog_.samples("xla v6e", kPeakBytes)[0].measured, 12) << "for nobody in particular the newest";
}

// However many others there are, at most a hundred count, and the own ones are among them.
TEST_F(CatalogTest, ManySamplesOfOthersDoNotDriveTheOwnOnesOut) {
  catalog_.record_calibration(sample(launch("first", "own"), 10, 11));
  for (int i = 0; i < 110; ++i) catalog_.record_calibration(sample(launch("l" + std::to_string(i), "other"), 10, 12));
  const std::vector<Sample> samples = catalog_.samples("xla v6e", kPeakBytes, {.code_version = "own"});
  EXPECT_EQ(samples.size(), 100U);
  EXPECT_EQ(samples[0].signature, launch("first", "own"));
}

TEST_F(CatalogTest, AnotherMachineIsAnotherBuild) {
  Signature here = launch("a");
  here.build.threads = 2;
  here.build.processor = "EPYC";
  catalog_.record({.signature = here, .at = "1"});
  EXPECT_EQ(catalog_.entries()[0].signature, here);
  EXPECT_FALSE(catalog_.remembered(here)->other_build);
  Signature there = here;
  there.build.threads = 4;
  ASSERT_TRUE(catalog_.remembered(there) && catalog_.remembered(there)->other_build);
  EXPECT_EQ(catalog_.remembered(there)->other_build->threads, 2);
}

TEST_F(CatalogTest, ACorrectionNeverLearnsFromTheLayoutItJudges) {
  catalog_.record_calibration(sample(launch("a"), 10, 12));
  catalog_.record_calibration(sample(launch("b"), 10, 12));
  catalog_.record_calibration(sample(launch("judged"), 10, 30));
  catalog_.record_calibration(sample(launch("judged", "0.0.9"), 10, 40));
  const Correction correction =
      correction_by_others(catalog_.samples("xla v6e", kPeakBytes, launch("judged").build), launch("judged"));
  EXPECT_EQ(correction.samples, 2U);
  EXPECT_NEAR(correction.corrected({{"weights", 10}}), 12, 0.05);
  EXPECT_EQ(catalog_.correction("xla v6e", kPeakBytes, {}).samples, 3U);
  EXPECT_EQ(catalog_.correction("cpu", kPeakBytes, {}).method, Method::none);
}

TEST_F(CatalogTest, AMeasurementOfNothingIsOurDefect) {
  EXPECT_THROW(catalog_.record_calibration(sample(launch("a"), 10, 0)), base::Error);
  EXPECT_THROW(catalog_.record_calibration(sample(launch("a"), 0, 10)), base::Error);
  EXPECT_TRUE(catalog_.entries().empty());
}

TEST_F(CatalogTest, ARowThatCannotBeOursNamesTheFile) {
  const Signature requested = launch("a");
  catalog_.remember_start(requested, {.at = "1", .settings = {{"train.batch", "4"}}, .reasons = {"r"}});
  catalog_.record_calibration(sample(requested, 10, 11));
  struct Row {
    const char* damage;
    const char* got;
  };
  for (const auto& [damage, got] :
       {Row{"start SET settings = '{\"train.batch\":'", "a damaged row: settings, byte 15: the end of the text"},
        Row{"start SET settings = '[]'", "a damaged row: settings that is not an object"},
        Row{"start SET reasons = ''", "a damaged row: reasons, byte 0: the end of the text"},
        Row{"sample SET parts = '{}'", "a damaged row: parts: no prediction"},
        Row{"sample SET parts = '{\"weights\":\"many\"}'", "a damaged row: parts.weights that is not a number"},
        Row{"sample SET measured = 0", "a damaged row: measured: 0"}}) {
    const testing_support::TemporaryFolder folder;
    const std::filesystem::path copy = folder / "copy.sqlite";
    Database(catalog_.path(), {}).execute("VACUUM INTO '" + copy.string() + "'");
    Database(copy, {}).execute(std::string("UPDATE ") + damage);
    const base::Problem problem =
        testing_support::problem_of(base::Code::E1701, [&] { Catalog::open(copy).entries(); });
    EXPECT_EQ(problem.where, copy) << damage;
    EXPECT_EQ(problem.got, got);
    EXPECT_NE(problem.next.find("--catalog"), std::string::npos) << problem.next;
  }
}

TEST_F(CatalogTest, EntriesComeWithEverythingAndTheNewestFirst) {
  catalog_.record({.signature = launch("a"), .at = "2026-11-15T17:00:00Z"});
  catalog_.record({.signature = launch("b"), .at = "2026-11-15T17:00:01Z"});
  catalog_.record({.signature = launch("a"), .at = "2026-11-15T17:00:02Z"});
  catalog_.remember_start(launch("a"), {.at = "2026-11-15T17:00:02Z"});
  catalog_.record_calibration(sample(launch("b"), 10, 11));
  const std::vector<Entry> entries = catalog_.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].signature, launch("a"));
  EXPECT_EQ(entries[0].outcomes.size(), 2U);
  EXPECT_EQ(entries[0].starts.size(), 1U);
  EXPECT_EQ(entries[1].samples.size(), 1U);
  EXPECT_EQ(catalog_.entry(entries[1].id)->signature, launch("b"));
  EXPECT_FALSE(catalog_.entry(99));
}

TEST_F(CatalogTest, ForgettingTakesEverythingAboutASignature) {
  catalog_.record({.signature = launch("a"), .at = "1"});
  catalog_.record({.signature = launch("a"), .at = "2"});
  catalog_.remember_start(launch("a"), {.at = "2"});
  catalog_.record_calibration(sample(launch("a"), 10, 11));
  catalog_.record({.signature = launch("b"), .at = "3"});
  const int64_t id =
      catalog_.entries().back().signature == launch("a") ? catalog_.entries().back().id : catalog_.entries().front().id;
  const Forgotten one = catalog_.forget(id);
  EXPECT_EQ(one.signatures, 1);
  EXPECT_EQ(one.outcomes, 2);
  EXPECT_EQ(one.starts, 1);
  EXPECT_EQ(one.samples, 1);
  EXPECT_FALSE(catalog_.remembered(launch("a")));
  EXPECT_TRUE(catalog_.remembered(launch("b")));
  EXPECT_TRUE(catalog_.samples("xla v6e", kPeakBytes).empty());
  EXPECT_EQ(catalog_.forget(id).signatures, 0);
  EXPECT_EQ(catalog_.forget_all().outcomes, 1);
  EXPECT_TRUE(catalog_.entries().empty());

  // Ids are never used again: a number noted down cannot come to mean something else.
  catalog_.record({.signature = launch("c"), .at = "4"});
  EXPECT_GT(catalog_.entries()[0].id, id);
}

}  // namespace
}  // namespace megacpp::catalog
