// SPDX-License-Identifier: Apache-2.0
// The tiny recipes in bf16 against f32 on the CPU backend: every gradient, within what the format allows.
#include "tests/parity/half_precision.h"

#include <gtest/gtest.h>

#include "megacpp/machine/backends/backend_table.h"
#include "tests/parity/layout_rows.h"

namespace megacpp::testing_support {
namespace {

struct HalfPrecisionRow {
  std::string name;
  LayoutRow row;
  int64_t seeds;  // to try where a router chooses otherwise in bf16
};

void PrintTo(const HalfPrecisionRow& row, std::ostream* out) { *out << row.name; }

class HalfPrecisionTest : public testing::TestWithParam<HalfPrecisionRow> {
 protected:
  static GradientRun run(int64_t seed, const std::string& precision) {
    LayoutRow row = GetParam().row;
    row.words = "train.precision=" + precision;
    return run_gradients(recipe_of(row, seed), runtime::backend_named("cpu"));
  }
};

INSTANTIATE_TEST_SUITE_P(Recipes, HalfPrecisionTest,
                         testing::Values(HalfPrecisionRow{"nam52", {"nam52-tiny", "", ""}, 1},
                                         HalfPrecisionRow{"nam56r", {"nam56r-tiny", "", ""}, 6}),
                         [](const auto& info) { return info.param.name; });

TEST_P(HalfPrecisionTest, EveryGradientIsThatOfSinglePrecisionButForRounding) {
  const std::string problems = half_precision_problems([](int64_t seed) { return run(seed, "bf16"); },
                                                       [](int64_t seed) { return run(seed, "f32"); }, GetParam().seeds);
  EXPECT_EQ(problems, "");
}

TEST_P(HalfPrecisionTest, ADoubledGradientIsFound) {
  const GradientRun half = run(1, "bf16");
  for (const auto& [name, gradient] : half.gradients) {
    GradientRun wrong = half;
    for (float& element : wrong.gradients[name]) element *= 2;
    EXPECT_NE(half_precision_problems(wrong, half).find(name + " is off"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace megacpp::testing_support
