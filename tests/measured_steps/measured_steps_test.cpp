// SPDX-License-Identifier: Apache-2.0
// Steps that were measured on other hardware beside their predictions. Rates in chip files were fitted to the tuning
// rows; the judging rows have had no part in them, and alone say how good predictions are. Which is which a hash says.
// Ranges (step_least, step_most) are of all rows together, and wider: that a row is within its range shows no more than
// that the file says what it was taken from.
// What a row was recorded with is hashed; levels that it left to planning stand beside it as they ran
// (`left_to_planning`), so that planner and chip files cannot change what a row is of: among its settings they would
// make another split of it (nam56r-1b on cuda would move from judging to tuning). Rows whose record has it say what the
// device held at most (`peak_bytes`): of xla some to a hundredth of a GiB, of cuda to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/users_catalog.h"
#include "tests/support/blind_split.h"

namespace megacpp::fit {
namespace {

/// Relative errors of predicted steps. The aim is 15 % for every row, and all are within it. The bounds are what is
/// reached, with some room. Of xla four tuning rows are up to 6.8 % off (the hybrid with selective recompute) and five
/// judging rows up to 7.7 % (the dropless hybrid); of cuda a tuning row is 4.0 % too fast, and of the judging rows the
/// hybrid of 1.3B is 8.9 % too slow and nam56r-1b 7.4 % too fast. A step that is further off is for the rates of the
/// chip's file to mend, not for the bounds.
struct StepBounds {
  double tuned;   // the worst of tuning rows
  double median;  // of judging rows
  double worst;
};
const std::map<std::string, StepBounds> kBounds = {{"xla", {.tuned = 0.08, .median = 0.05, .worst = 0.10}},
                                                   {"cuda", {.tuned = 0.08, .median = 0.10, .worst = 0.15}}};

/// Our kernels ran in what was planned, to the byte (planned_bytes of the records). Plans need less by now, mostly
/// since the loss reads logits in bf16: nam52-1b 4.2 %, nam56r-1b 2.9 %, the dense and the hybrid 0.8 and 0.7 %. A plan
/// that is further below is of another program than the one that was timed: measure it again. None may need more.
constexpr double kSavedSince = 0.05;
// How far XLA's unrolled steps on GPUs may be from their plans, which is more than they were: 13 % at most, the hybrid
// with selective recompute, which takes less. The dropless one took 92.91 GiB where 64.27 are planned: a plan has none
// of the copies of rows that XLA makes for every expert, and counts with more gaps instead.
constexpr double kXlaPeak = 0.15, kXlaDroplessPeak = 0.50;

struct Row {
  std::string name, split, backend;
  double measured = 0;                // seconds
  std::optional<int64_t> peak_bytes;  // measured; absent: not recorded
  StepTime predicted;
  ChipGroup chip;

  double error() const { return predicted.seconds() / measured - 1; }
};

std::string text(const base::Json& json) { return json.get<std::string>(); }

Estimate estimate_of(const recipe::Recipe& recipe, const std::string& hardware) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const Assumptions assumptions = launch::assumptions_for(recipe, launch::slice_named(hardware, recipe.backend), none);
  return make_estimate(recipe, assumptions, FitVerdict::close);
}

Row predict(const std::string& line) {
  const base::Json json = base::parse_json(line, base::Code::E1008, "measured_steps.jsonl");
  testing_support::Measurement measurement;
  measurement.recipe = text(json["recipe"]);
  measurement.hardware = text(json["hardware"]);
  measurement.backend = text(json["backend"]);
  for (const base::Json& setting : json["set"]) measurement.settings.push_back(text(setting));
  std::vector<std::string> settings = measurement.settings;
  settings.push_back("backend=" + measurement.backend);
  for (const base::Json& setting : json.value("left_to_planning", base::Json::array()))
    settings.push_back(text(setting));
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/" + text(json["recipe"]), settings);
  for (const char letter : recipe::recompute_letters(recipe.model))
    EXPECT_NE(recipe::recompute_level(recipe, letter), recipe::RecomputeLevel::automatic) << text(json["name"]);
  Row row;
  row.backend = recipe.backend;
  row.name = text(json["name"]);
  row.split = text(json["split"]);
  EXPECT_EQ(row.split, testing_support::split_of(measurement)) << row.name;
  row.measured = json["seconds"].get<double>();
  if (json.contains("peak_bytes")) row.peak_bytes = json["peak_bytes"].get<int64_t>();
  const Estimate estimate = estimate_of(recipe, measurement.hardware);
  row.predicted = estimate.time;
  row.chip = estimate.fit.worst();
  return row;
}

std::vector<Row> rows_of(const std::string& name) {
  std::ifstream file(std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<Row> found;
  for (std::string line; std::getline(file, line);) found.push_back(predict(line));
  return found;
}

// Each is planned once: that takes seconds.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = rows_of("measured_steps.jsonl");
  return kRows;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// No GPU with less than XLA took is said to fit, and none with a tenth more is said not to.
void expect_verdicts_of(const Row& row) {
  ChipGroup chip = row.chip;
  chip.limit.bytes = *row.peak_bytes - 1;
  EXPECT_NE(chip.verdict(), FitVerdict::fits) << row.name;
  chip.limit.bytes = *row.peak_bytes + *row.peak_bytes / 10;
  EXPECT_NE(chip.verdict(), FitVerdict::does_not_fit) << row.name;
  EXPECT_LE(chip.reservation.least, *row.peak_bytes) << row.name;
}

// What XLA reserves is within what verdicts count with; our kernels take what is planned.
TEST(MeasuredStepsTest, TookNoMoreThanPlansAllowFor) {
  std::map<std::string, size_t> recorded;  // by backend
  for (const Row& row : rows()) {
    if (!row.peak_bytes) continue;
    ++recorded[row.backend];
    const double peak = static_cast<double>(*row.peak_bytes), planned = static_cast<double>(row.chip.needed());
    fmt::print("{:4} {}: {:.2f} GiB planned, {:.2f} GiB measured, {:.3f} of it\n", row.backend, row.name,
               planned / 0x1p30, peak / 0x1p30, peak / planned);
    if (row.backend == "cuda") {
      EXPECT_LE(planned, peak) << row.name;
      EXPECT_GE(planned, (1 - kSavedSince) * peak) << row.name;
    } else {
      EXPECT_TRUE(row.chip.reservation.is_range()) << row.name;
      expect_verdicts_of(row);
      EXPECT_NEAR(peak / planned, 1, row.name.find("dropless") == std::string::npos ? kXlaPeak : kXlaDroplessPeak)
          << row.name;
    }
  }
  EXPECT_EQ(recorded, (std::map<std::string, size_t>{{"cuda", 4}, {"xla", 10}}));
}

// bench/results/2026-11-18-nvidia-h200-xla-hybrid.txt: out of memory.
TEST(MeasuredStepsTest, WhatRanOutOfMemoryIsNotSaidToFit) {
  const std::vector<std::string> settings = {"backend=xla", "model.feed_forward.capacity_factor=0",
                                             "train.recompute=none"};
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/bench/recipes/hybrid-2b.yaml", settings);
  EXPECT_NE(estimate_of(recipe, "h200:1").fit.verdict(), FitVerdict::fits);
}

// Four shapes each that bench/drawn_steps drew from two seeds, on both lanes. No rate was fitted to any of them,
// whatever their split: all of them judge.
TEST(MeasuredStepsTest, ShapesDrawnAtRandomArePredicted) {
  const std::vector<Row> drawn = rows_of("drawn_steps.jsonl");
  ASSERT_EQ(drawn.size(), 16U);
  for (const Row& row : drawn) {
    fmt::print("{:4} {}: {:.0f} ms predicted, {:.0f} ms measured, {:+.1f} %\n", row.backend, row.name,
               1e3 * row.predicted.seconds(), 1e3 * row.measured, 100 * row.error());
    EXPECT_LE(std::abs(row.error()), 0.15) << row.name;
    EXPECT_GE(row.measured, row.predicted.range.least) << row.name;
    EXPECT_LE(row.measured, row.predicted.range.most.value()) << row.name;
    if (row.backend == "cuda")
      EXPECT_EQ(row.chip.needed(), row.peak_bytes) << row.name;
    else
      expect_verdicts_of(row);
  }
}

// Steps of milliseconds, in which launches and the least time of kernels count, in f32 and bf16: tiny recipes, and
// shapes that bench/drawn_steps --small drew from two seeds. Constants of kernels are from rows of single kernels; some
// were mended by the recipes and the first seed, so that the second judges.
TEST(MeasuredStepsTest, SmallStepsArePredicted) {
  std::map<std::string, std::vector<double>> errors;  // by split
  for (const Row& row : rows_of("small_steps.jsonl")) {
    fmt::print("{:8} {}: {:.2f} ms predicted, {:.2f} ms measured, {:+.1f} %\n", row.split, row.name,
               1e3 * row.predicted.seconds(), 1e3 * row.measured, 100 * row.error());
    errors[row.name.find("20261121") == std::string::npos ? "tuning" : "judging"].push_back(std::abs(row.error()));
  }
  ASSERT_EQ(errors["tuning"].size(), 24U);
  ASSERT_EQ(errors["judging"].size(), 16U);
  EXPECT_LE(*std::ranges::max_element(errors["tuning"]), 0.25);
  EXPECT_LE(median(errors["judging"]), 0.15);
  std::ranges::sort(errors["judging"]);
  EXPECT_LE(errors["judging"][14], 0.25);
  EXPECT_LE(errors["judging"][15], 0.45) << "experts in f32, whose plain kernels differ most";
}

// Lanes of one chip reach different rates, so each is judged by itself.
TEST(MeasuredStepsTest, ArePredictedByRatesThatWereFittedToOthers) {
  std::map<std::string, std::map<std::string, std::vector<double>>> errors;  // by backend and split
  for (const Row& row : rows()) {
    fmt::print("{:4} {:8} {}: {:.0f} ms predicted, {:.0f} ms measured, {:+.1f} %; roofline {:.0f} ms\n", row.backend,
               row.split, row.name, 1e3 * row.predicted.seconds(), 1e3 * row.measured, 100 * row.error(),
               1e3 * row.predicted.limit);
    errors[row.backend][row.split].push_back(std::abs(row.error()));
    EXPECT_LT(row.predicted.limit, row.measured) << row.name << ": nothing is faster than the roofline";
    ASSERT_TRUE(row.predicted.range.most.has_value()) << row.name;
    EXPECT_GE(row.measured, row.predicted.range.least) << row.name;
    EXPECT_LE(row.measured, *row.predicted.range.most) << row.name;
  }
  ASSERT_EQ(errors.size(), 2U) << "xla and cuda";
  for (const auto& [backend, by_split] : errors) {
    ASSERT_EQ(by_split.size(), 2U) << backend << ": tuning and judging";
    const StepBounds& bounds = kBounds.at(backend);
    EXPECT_LE(*std::ranges::max_element(by_split.at("tuning")), bounds.tuned) << backend;
    EXPECT_LE(median(by_split.at("judging")), bounds.median) << backend;
    EXPECT_LE(*std::ranges::max_element(by_split.at("judging")), bounds.worst) << backend;
  }
}

}  // namespace
}  // namespace megacpp::fit
