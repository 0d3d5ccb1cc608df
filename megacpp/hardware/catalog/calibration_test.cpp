// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megacpp::catalog {
namespace {

constexpr double kGigabyte = 1e9;

Sample sample(const std::string& layout, std::vector<Part> parts, double measured) {
  return {.signature = {.model = "m", .layout = layout},
          .lane = "xla v6e",
          .quantity = kPeakBytes,
          .parts = std::move(parts),
          .measured = measured};
}

/// Layouts whose weights are as predicted while temporaries are 1.6 and activations 0.8 times what was thought.
std::vector<Sample> layouts(int count, double scatter) {
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    const double weights = (1 + i % 3) * kGigabyte, activations = (0.5 + i % 4) * kGigabyte,
                 temporaries = (0.3 + (i * 7) % 5) * kGigabyte;
    const double noise = 1 + scatter * std::sin(3.0 * i);
    samples.push_back(sample("layout " + std::to_string(i),
                             {{"weights", weights}, {"activations", activations}, {"temporaries", temporaries}},
                             (weights + 0.8 * activations + 1.6 * temporaries) * noise));
  }
  return samples;
}

TEST(CalibrationTest, NothingIsCorrectedWithoutSamples) {
  const Correction correction = fit_correction({});
  EXPECT_EQ(correction.method, Method::none);
  EXPECT_EQ(correction.samples, 0U);
  EXPECT_FALSE(correction.after);
  EXPECT_EQ(correction.corrected({{"weights", 3}, {"other", 4}}), 7);
}

TEST(CalibrationTest, FewerSamplesThanPartsShareTheMedianRatio) {
  const std::vector<Part> parts = {{"weights", 2}, {"activations", 1}, {"temporaries", 1}, {"collective", 0}};
  const Correction correction =
      fit_correction({sample("a", parts, 4.4), sample("b", parts, 4.8), sample("c", parts, 40)});
  EXPECT_EQ(correction.method, Method::median_ratio);
  EXPECT_NEAR(correction.factor, 1.2, 1e-12);
  EXPECT_NEAR(correction.corrected({{"weights", 10}, {"new", 10}}), 24, 1e-12);
  EXPECT_NEAR(correction.before.worst, 0.9, 1e-12);
}

TEST(CalibrationTest, EachPartGetsTheFactorThatItsSamplesHave) {
  const Correction correction = fit_correction(layouts(12, 0));
  EXPECT_EQ(correction.method, Method::parts);
  EXPECT_NEAR(correction.factor_of("weights"), 1, 0.02);
  EXPECT_NEAR(correction.factor_of("activations"), 0.8, 0.02);
  EXPECT_NEAR(correction.factor_of("temporaries"), 1.6, 0.02);
  EXPECT_EQ(correction.factor_of("never seen"), 1);
  EXPECT_GT(correction.before.worst, 0.2);
  EXPECT_LT(correction.after->worst, 0.02);
}

TEST(CalibrationTest, OneOddSampleBendsLittle) {
  std::vector<Sample> samples = layouts(12, 0.01);
  samples[5].measured *= 3;
  const Correction correction = fit_correction(samples);
  EXPECT_NEAR(correction.factor_of("activations"), 0.8, 0.1);
  EXPECT_NEAR(correction.factor_of("temporaries"), 1.6, 0.1);
  EXPECT_LT(correction.after->median, 0.03);
  EXPECT_GT(correction.after->worst, 0.5);  // the odd one itself is not explained away
}

TEST(CalibrationTest, APartThatSamplesHardlyHaveKeepsItsPrediction) {
  std::vector<Sample> samples = layouts(8, 0.01);
  for (Sample& one : samples) one.parts.push_back({"collective", 1e3});
  EXPECT_NEAR(fit_correction(samples).factor_of("collective"), 1, 1e-3);
}

TEST(CalibrationTest, FactorsAreNeverNegative) {
  std::vector<Sample> samples;
  for (int i = 1; i < 8; ++i) samples.push_back(sample(std::to_string(i), {{"a", 10.0}, {"b", 1.0 * i}}, 10.0 - i));
  for (const auto& [name, factor] : fit_correction(samples).factors) EXPECT_GE(factor, 0) << name;
}

TEST(CalibrationTest, LeavingOneOutJudgesEachByTheOthersOnly) {
  const std::vector<Sample> samples = layouts(10, 0.03);
  const LeaveOneOut result = leave_one_out(samples);
  ASSERT_EQ(result.judged.size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<Sample> others = samples;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_DOUBLE_EQ(result.judged[i].corrected, fit_correction(others).corrected(samples[i].parts));
    EXPECT_DOUBLE_EQ(result.judged[i].predicted, total(samples[i].parts));
  }
  EXPECT_LT(result.after.worst, result.before.worst);
  EXPECT_DOUBLE_EQ(result.after.worst, fit_correction(samples).after->worst);
}

// A second version of the program measures the same layout: neither may teach about the other.
TEST(CalibrationTest, TheSameLayoutByAnotherVersionIsLeftOutToo) {
  std::vector<Sample> samples = layouts(6, 0);
  Sample again = samples[2];
  again.signature.build.code_version = "another";
  again.measured *= 2;
  samples.push_back(again);
  const std::vector<Judged> judged = leave_one_out(samples).judged;
  EXPECT_DOUBLE_EQ(judged[2].corrected, judged[6].corrected);
  EXPECT_LT(std::abs(judged[2].corrected / samples[2].measured - 1), 0.02);
}

Sample by(const std::string& version, Sample sample) {
  sample.signature.build.code_version = version;
  return sample;
}

// Two parts: one own sample is too few for a factor each, two suffice.
TEST(CalibrationTest, OtherBuildsCountOnlyWhileTheOwnSamplesAreTooFew) {
  const std::vector<Part> parts = {{"weights", 2}, {"activations", 2}};
  std::vector<Sample> samples = {by("old", sample("a", parts, 8)), by("old", sample("b", parts, 8)),
                                 by("older", sample("c", parts, 8)), by("own", sample("d", parts, 4))};
  const Correction mixed = fit_correction(samples, {.code_version = "own"});
  EXPECT_EQ(mixed.samples, 4U);
  EXPECT_EQ(mixed.own_samples, 1U);
  EXPECT_EQ(mixed.left_out, 0U);
  EXPECT_EQ(mixed.others, (std::vector<Source>{{{.code_version = "old"}, 2}, {{.code_version = "older"}, 1}}));
  EXPECT_EQ(sources_text(mixed), "1 of this build; 2 of old, 1 of older");
  EXPECT_GT(mixed.corrected(parts), 5);

  samples.push_back(by("own", sample("e", parts, 4)));
  const Correction own = fit_correction(samples, {.code_version = "own"});
  EXPECT_EQ(own.samples, 2U);
  EXPECT_EQ(own.own_samples, 2U);
  EXPECT_TRUE(own.others.empty());
  EXPECT_EQ(sources_text(own), "2 of this build; 3 of other builds left out");
  EXPECT_NEAR(own.corrected(parts), 4, 1e-9);
  // The same program on another machine is another one; threads are the layout's matter.
  EXPECT_EQ(fit_correction(samples, {.code_version = "own", .threads = 4}).own_samples, 2U);
  EXPECT_EQ(fit_correction(samples, {.code_version = "own", .processor = "other"}).own_samples, 0U);
}

TEST(CalibrationTest, ALongListOfBuildsIsCutShort) {
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i);
    samples.push_back(by("v" + name, sample(name, {{"weights", 1}, {"other", 1}}, 3)));
  }
  const Correction correction = fit_correction(samples, {.code_version = "own"});
  EXPECT_EQ(sources_text(correction), "none of this build; 1 of v0, 1 of v1, 1 of v2, 3 of 3 more builds");
}

}  // namespace
}  // namespace megacpp::catalog
