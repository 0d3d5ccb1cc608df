// SPDX-License-Identifier: Apache-2.0
// The plan of every recorded step beside the compiler's own numbers: arguments, peak, code, and FLOPs of a chip. The
// peak is judged as planned, and corrected by what the other layouts taught, never by the one that is judged.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "megacpp/base/json_text.h"
#include "megacpp/catalog/calibration.h"
#include "megacpp/fit/on_paper.h"
#include "megacpp/fit/parameter_bytes.h"
#include "megacpp/fit/signature.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp::fit {
namespace {

struct Recorded {
  std::string row;
  OnPaper paper;
  double argument = 0, peak = 0, code = 0, flops = 0;  // the compiler's, of a chip; bytes
};

double number(const base::Json& json, const char* key) { return json.find(key)->number().value(); }

const std::string& text(const base::Json& json) { return *json.get_if<std::string>(); }

Recorded plan_of(const std::string& line) {
  const base::Json json = base::parse_json(line, base::Code::E1008, "v6e_compiled_steps.jsonl");
  std::vector<std::string> settings;
  for (const base::Json& setting : *json.find("settings")->get_if<base::Json::Array>())
    settings.push_back(text(setting));
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + text(*json.find("recipe")) + ".yaml";
  const Ground ground{.slice = hw::parse_target(text(*json.find("target"))), .kernels = runtime::cpu::cpu_target(1)};
  return {text(*json.find("row")),  plan_on_paper(recipe::load(recipe, settings), ground),
          number(json, "argument"), number(json, "peak"),
          number(json, "code"),     number(json, "flops")};
}

std::vector<Recorded> recorded() {
  std::ifstream file(std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/v6e_compiled_steps.jsonl");
  std::vector<Recorded> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(plan_of(line));
  return rows;
}

const memory::MemoryPlan& memory_of(const Recorded& row) { return row.paper.compiled.pipeline[0].memory; }

void arguments_are_within_a_thousandth(const std::vector<Recorded>& rows) {
  const hw::Chip chip = hw::find_chip("v6e");
  for (const Recorded& row : rows)
    EXPECT_NEAR(static_cast<double>(argument_bytes(memory_of(row), chip).total()) / row.argument, 1, 1e-3) << row.row;
}

// The plan takes the most that was seen for every step.
void code_is_within_what_the_chip_file_says(const std::vector<Recorded>& rows) {
  const hw::Chip chip = hw::find_chip("v6e");
  for (const Recorded& row : rows) {
    EXPECT_GE(row.code, static_cast<double>(chip.code_bytes_least)) << row.row;
    EXPECT_LE(row.code, static_cast<double>(chip.code_bytes_most)) << row.row;
  }
}

void planned_peaks_are_within_a_quarter(const std::vector<Recorded>& rows) {
  for (const Recorded& row : rows)
    EXPECT_NEAR(static_cast<double>(memory_of(row).total_bytes) / row.peak, 1, 0.25) << row.row;
}

void corrected_peaks_are_within_a_tenth(const std::vector<Recorded>& rows) {
  std::vector<catalog::Sample> samples;
  for (const Recorded& row : rows)
    samples.push_back({.signature = signature_of(row.paper.recipe, row.paper.fit.hardware),
                       .at = "2026-11-15T00:00:00Z",
                       .lane = "xla v6e",
                       .quantity = catalog::kPeakBytes,
                       .parts = parts_of(memory_of(row)),
                       .measured = row.peak});
  const catalog::LeaveOneOut judged = catalog::leave_one_out(samples);
  std::string table;
  for (size_t i = 0; i < rows.size(); ++i)
    table += rows[i].row + " planned " + std::to_string(judged.judged[i].predicted / rows[i].peak) + " corrected " +
             std::to_string(judged.judged[i].corrected / rows[i].peak) + "\n";
  EXPECT_LE(judged.after.worst, 0.10) << table;
  EXPECT_LE(judged.after.median, 0.05) << table;
}

void flops_of_a_chip_are_within_a_twentieth(const std::vector<Recorded>& rows) {
  for (const Recorded& row : rows) EXPECT_NEAR(row.paper.compiled.pipeline[0].flops / row.flops, 1, 0.05) << row.row;
}

// One case: every plan is made once.
TEST(V6ePlanTest, EveryRecordedStepAgreesWithTheCompiler) {
  const std::vector<Recorded> rows = recorded();
  EXPECT_GE(rows.size(), 10u);
  arguments_are_within_a_thousandth(rows);
  code_is_within_what_the_chip_file_says(rows);
  planned_peaks_are_within_a_quarter(rows);
  corrected_peaks_are_within_a_tenth(rows);
  flops_of_a_chip_are_within_a_twentieth(rows);
}

}  // namespace
}  // namespace megacpp::fit
