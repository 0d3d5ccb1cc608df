// SPDX-License-Identifier: Apache-2.0
// Long sequences as StableHLO: a step's text is as long for 128k tokens as for 32k, holds no scores of a whole
// sequence, and its attention is the plan's.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/step.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::testing_support {
namespace {

constexpr int64_t kChips = 4;

recipe::Recipe long_recipe(int64_t tokens, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.depth=4", "train.batch=1", "train.micro_steps=1",
                                       "train.sequence=" + std::to_string(tokens),
                                       "layout.context_parallel=" + std::to_string(kChips)};
  settings.insert(settings.end(), more.begin(), more.end());
  return recipe::load(MEGACPP_SOURCE_DIR "/recipes/nam52-1b.yaml", settings);
}

compile::Compiled compiled_for_xla(const recipe::Recipe& recipe) {
  return compile::compile_training(plan::make_plan(recipe), runtime::pjrt::xla_target(emit::Placement::megacpp));
}

std::string text_of(const recipe::Recipe& recipe) {
  const compile::Compiled compiled = compiled_for_xla(recipe);
  const compile::StagePrograms& chip = compiled.stages[0];
  const compile::Program& micro_step = chip.find(compile::ProgramKind::micro_step);
  return emit::write_step({micro_step.graph, chip.find(compile::ProgramKind::update).graph, recipe.train.micro_steps,
                           chip.placements(), micro_step.outputs},
                          compiled.mesh, emit::Placement::megacpp, {})
      .text;
}

/// Whether a tensor of the text has this dimension twice.
bool has_square(const std::string& text, int64_t size) {
  const std::string n = std::to_string(size);
  return std::regex_search(text, std::regex("[<x]" + n + "x(?:[0-9]+x)*" + n + "x[a-z]"));
}

TEST(LongContextTest, ATextIsAsLongForAnySequenceAndHasNoSquareOfIt) {
  const std::string shorter = text_of(long_recipe(32768)), longer = text_of(long_recipe(131072));
  EXPECT_NEAR(static_cast<double>(longer.size()) / static_cast<double>(shorter.size()), 1, 0.02);
  EXPECT_FALSE(has_square(shorter, 32768 / kChips));
  EXPECT_FALSE(has_square(longer, 131072 / kChips));
  EXPECT_FALSE(has_square(longer, 131072));
  EXPECT_TRUE(has_square("tensor<1x8192x2x8192xf32>", 8192)) << "the check sees one";
}

/// FLOPs of a node of attention, by op.
std::map<std::string, double> attention_costs(const compile::Compiled& compiled) {
  std::map<std::string, double> costs;
  for (const compile::Program& program : compiled.stages[0].programs)
    for (const ir::Node& node : program.graph.nodes()) {
      const ops::OpDef& op = ops::op_def(node.op);
      if (op.work != ops::Work::attention && op.work != ops::Work::attention_grad) continue;
      const ops::Types operands = program.graph.operand_types(node), results = program.graph.result_types(node);
      costs[node.op] = op.cost({operands, results, node.attrs}).flops;
    }
  return costs;
}

TEST(LongContextTest, ThePlanHasTheProgramsAttention) {
  for (const std::vector<std::string>& mask : std::vector<std::vector<std::string>>{
           {},
           {"model.attention.window=1024"},
           {"model.attention.sparse_block=512", "model.attention.sparse_local=2", "model.attention.sparse_global=1"}}) {
    const recipe::Recipe recipe = long_recipe(32768, mask);
    const fit::Assumptions assumptions{
        .slice = hw::parse_target("v6e:2x2"), .kernels = runtime::cpu::cpu_target(1), .xla_forms = fit::XlaForms{}};
    const std::map<std::string, double> planned = attention_costs(fit::make_estimate(recipe, assumptions).compiled);
    EXPECT_EQ(planned, attention_costs(compiled_for_xla(recipe)));
    EXPECT_EQ(planned.size(), 2u);
    EXPECT_TRUE(planned.contains("blocked_attention"));
  }
}

}  // namespace
}  // namespace megacpp::testing_support
