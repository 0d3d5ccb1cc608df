// SPDX-License-Identifier: Apache-2.0
// The text of a full-size step grows with its distinct blocks and not with its depth: a period more of the
// pattern is one more iteration of its loops. Unrolled, it is as many calls more.
#include <gtest/gtest.h>

#include <ostream>

#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/step.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/text.h"

namespace megacpp::testing_support {
namespace {

using emit::Placement;

struct TextRow {
  std::string name;
  std::string recipe;
  std::vector<std::string> overrides;
  std::vector<int64_t> depths;  // whole periods of the pattern, each family more than once
};

void PrintTo(const TextRow& row, std::ostream* out) { *out << row.name; }

emit::Module step_of(const TextRow& row, int64_t depth, Placement placement,
                     const emit::FunctionOptions& options = {}) {
  std::vector<std::string> overrides = row.overrides;
  overrides.push_back("model.depth=" + std::to_string(depth));
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR "/recipes/").append(row.recipe).append(".yaml"), overrides);
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe), runtime::pjrt::xla_target(placement));
  const compile::StagePrograms& chip = compiled.stages[0];
  const compile::Program& micro_step = chip.find(compile::ProgramKind::micro_step);
  return emit::write_step({micro_step.graph, chip.find(compile::ProgramKind::update).graph, recipe.train.micro_steps,
                           chip.placements(), micro_step.outputs},
                          compiled.mesh, placement, options);
}

class StepTextTest : public testing::TestWithParam<TextRow> {};

TEST_P(StepTextTest, GrowsWithDistinctBlocksAndNotWithDepth) {
  const TextRow& row = GetParam();
  for (const Placement placement : {Placement::xla, Placement::megacpp}) {
    const emit::Module first = step_of(row, row.depths[0], placement);
    EXPECT_EQ(count_of(first.text, "stablehlo.reverse"), 0u) << "see ops/linear_recurrence.cpp";
    for (size_t i = 1; i < row.depths.size(); ++i) {
      const emit::Module deeper = step_of(row, row.depths[i], placement);
      EXPECT_EQ(count_of(deeper.text, "func.func"), count_of(first.text, "func.func")) << row.depths[i];
      EXPECT_EQ(count_of(deeper.text, "func.call"), count_of(first.text, "func.call")) << row.depths[i];
      EXPECT_EQ(deeper.arguments.size(), first.arguments.size()) << row.depths[i];
      EXPECT_EQ(deeper.results.size(), first.results.size()) << row.depths[i];
      // Only numbers get longer: the lengths of stacks.
      EXPECT_NEAR(static_cast<double>(deeper.text.size()), static_cast<double>(first.text.size()),
                  5e-3 * static_cast<double>(first.text.size()))
          << row.depths[i];
    }
  }
}

// Calls of every block, and arguments for the state of every block, but no second text of any.
TEST_P(StepTextTest, UnrolledGrowsWithDepthByCallsAlone) {
  const TextRow& row = GetParam();
  ASSERT_EQ(row.depths.size(), 3u);
  std::vector<emit::Module> steps;
  for (const int64_t depth : row.depths) steps.push_back(step_of(row, depth, Placement::megacpp, {.has_loops = false}));
  // From the first depth to the last over that to the second: as the depths grow.
  const double expected =
      static_cast<double>(row.depths[2] - row.depths[0]) / static_cast<double>(row.depths[1] - row.depths[0]);
  const auto growth = [&](const auto& size_of) {
    const double first = static_cast<double>(size_of(steps[0]));
    return (static_cast<double>(size_of(steps[2])) - first) / (static_cast<double>(size_of(steps[1])) - first);
  };
  EXPECT_EQ(growth([](const emit::Module& step) { return step.arguments.size(); }), expected);
  EXPECT_EQ(growth([](const emit::Module& step) { return count_of(step.text, "func.call"); }), expected);
  EXPECT_NEAR(growth([](const emit::Module& step) { return step.text.size(); }), expected, 0.02 * expected);
  for (const emit::Module& step : steps) {
    EXPECT_EQ(count_of(step.text, "func.func"), count_of(steps[0].text, "func.func"));
    EXPECT_LE(count_of(step.text, "stablehlo.while"), count_of(steps[0].text, "stablehlo.while"));
  }
}

// What is kept may be made again by a fusion that reads it, unless a barrier stores it; what is recomputed must not be
// kept, so that it needs one.
TEST(StepBarrierTest, UnrolledBackwardPassesStandBehindOneWhereTheyRecompute) {
  const auto barriers = [](std::vector<std::string> overrides, bool has_loops) {
    overrides.insert(overrides.end(), {"model.pattern=E", "train.batch=2"});  // attention's gradient recomputes always
    const TextRow row{"", "nam52", std::move(overrides), {}};
    return count_of(step_of(row, 26, Placement::megacpp, {.has_loops = has_loops}).text, "optimization_barrier");
  };
  EXPECT_EQ(barriers({"train.recompute=none"}, false), 0u);
  EXPECT_GT(barriers({"train.recompute=selective"}, false), 0u);
  EXPECT_GT(barriers({"train.recompute=full"}, false), 0u);
  EXPECT_GT(barriers({"train.recompute=none", "layout.data_parallel=2", "layout.zero=3"}, false), 0u)
      << "parameters are gathered again";
  EXPECT_GT(barriers({"train.recompute=none"}, true), 0u);
}

// Where no matrix of a block is trained, no product reads what is made again: its convolution says that there is work.
TEST(StepBarrierTest, UnrolledBlocksThatOnlyConvolveAgainStandBehindOneToo) {
  const TextRow row{"",
                    "nam56r-tiny",
                    {"model.pattern=R", "train.recompute=selective", "lora.rank=4", "lora.targets=[block00*]"},
                    {}};
  const std::string text = step_of(row, 4, Placement::megacpp, {.has_loops = false}).text;
  EXPECT_GE(count_of(text, "optimization_barrier"), 2u) << "block00, whose matrices are trained, and the others";
}

// Over all of 16 chips: columns of four, then rows. Over eight, or 16 that are a part of 32, in one.
TEST(StepScatterTest, GradientsOverASquareSliceAreScatteredInTwoStages) {
  const auto scatters = [](std::vector<std::string> layout, bool has_square_scatters) {
    layout.push_back("layout.zero=3");
    const TextRow row{"", "nam52", std::move(layout), {}};
    return count_of(
        step_of(row, 26, Placement::megacpp, {.compiler = {.has_square_scatters = has_square_scatters}}).text,
        "stablehlo.reduce_scatter");
  };
  const std::vector<std::string> square = {"layout.data_parallel=16", "train.batch=16"},
                                 row = {"layout.data_parallel=8", "train.batch=8"},
                                 part = {"layout.data_parallel=16", "layout.context_parallel=2", "train.batch=16"};
  EXPECT_GT(scatters(square, true), 0u);
  EXPECT_EQ(scatters(square, false), 2 * scatters(square, true));
  EXPECT_EQ(scatters(row, false), scatters(row, true));
  EXPECT_EQ(scatters(part, false), scatters(part, true)) << "32 chips are no square";
}

const std::vector<std::string> kManyChips = {"layout.data_parallel=32", "layout.tensor_parallel=8", "layout.zero=3",
                                             "train.batch=32"};

INSTANTIATE_TEST_SUITE_P(Recipes, StepTextTest,
                         testing::Values(TextRow{"Nam52", "nam52", {}, {26, 52, 104}},
                                         TextRow{"Nam52On256", "nam52", kManyChips, {26, 52, 104}},
                                         TextRow{"Nam56r", "nam56r", {}, {36, 48, 60}},
                                         TextRow{"Nam56rOn256", "nam56r", kManyChips, {36, 48, 60}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace megacpp::testing_support
