// SPDX-License-Identifier: Apache-2.0
// Training in bf16 as it is compiled: logits that the loss reads in bf16, weights that are converted once a step, and
// values that a compiler's fusions make again.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/plain_target.h"
#include "tests/support/small_models.h"
#include "tests/support/small_training.h"

namespace megacpp::compile {
namespace {

using testing_support::plain_target;
using testing_support::small_training;
using testing_support::target_with_epilogues;

// ---- Logits in bf16 ----

// Logits are most of what a chip holds.
recipe::Recipe large_vocabulary() {
  recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
  recipe.model = testing_support::small_model("attention", "A");
  recipe.model.vocab = 4096;
  recipe.train.sequence = 16;
  recipe.train.micro_steps = 1;
  recipe.train.precision = ir::DType::bf16;
  return recipe;
}

schedule::Target target_without_narrow_logits() {
  schedule::Target target = target_with_epilogues();
  target.runs = [](std::string_view op, const ops::NodeView& view) {
    const bool is_declined = op.starts_with("cross_entropy") && view.operands[0].dtype == ir::DType::bf16;
    return is_declined ? base::Decision::no("its kernel reads f32") : base::Decision::yes();
  };
  return target;
}

// The loss and its gradient, part by part where the loss is split.
struct LossFacts {
  std::set<std::string> logits, gradients;  // types
  size_t parts = 0, in_place = 0;           // gradients, and those that take over the logits' bytes
  int64_t peak_bytes = 0;                   // of temporaries
};

LossFacts loss_facts(schedule::Target target, int64_t full_rate_rows) {
  target.full_rate_rows = full_rate_rows;
  const StagePrograms chip = compile_training(plan::make_plan(large_vocabulary()), target).stages[0];
  const ir::Graph& graph = chip.find(ProgramKind::micro_step).graph;
  const memory::ProgramPlan& plan = chip.memory.programs[chip.index_of(ProgramKind::micro_step)];
  LossFacts facts{.peak_bytes = plan.lower_bound};
  for (const ir::Node& node : graph.nodes()) {
    if (!node.op.starts_with("cross_entropy")) continue;
    facts.logits.insert(to_string(graph.type(node.operands[0])));
    if (node.op != "cross_entropy_grad") continue;
    facts.gradients.insert(to_string(graph.type(node.results[0])));
    ++facts.parts;
    if (plan.value_offset[node.results[0].index] == plan.value_offset[node.operands[0].index]) ++facts.in_place;
  }
  return facts;
}

using TypeNames = std::set<std::string>;

TEST(NarrowLogitsTest, OfABf16RunTheyAreBf16WhereTheLossReadsThemSo) {
  const LossFacts narrow = loss_facts(target_with_epilogues(), 0);
  EXPECT_EQ(narrow.logits, TypeNames{"bf16[2,16,4096]"});
  EXPECT_EQ(narrow.gradients, TypeNames{"bf16[2,16,4096]"});
  const LossFacts wide = loss_facts(target_without_narrow_logits(), 0);
  EXPECT_EQ(wide.logits, TypeNames{"f32[2,16,4096]"});
  EXPECT_EQ(wide.gradients, TypeNames{"bf16[2,16,4096]"});
  const LossFacts plain = loss_facts(plain_target(), 0);
  EXPECT_EQ(plain.logits, TypeNames{"f32[2,16,4096]"}) << "kernels without epilogues";
  EXPECT_EQ(plain.gradients, TypeNames{"f32[2,16,4096]"});
}

TEST(NarrowLogitsTest, TheirGradientTakesTheirPlaceAndAPartNeedsLessThanHalf) {
  for (const size_t parts : {1U, 2U}) {
    SCOPED_TRACE(parts);
    const auto rows = static_cast<int64_t>(2 * 16 / parts);
    const LossFacts narrow = loss_facts(target_with_epilogues(), rows);
    const LossFacts wide = loss_facts(target_without_narrow_logits(), rows);
    EXPECT_EQ(narrow.parts, parts);
    EXPECT_EQ(wide.parts, parts);
    EXPECT_EQ(narrow.in_place, parts);
    EXPECT_EQ(wide.in_place, 0U);
    const int64_t elements = rows * 4096;  // of a part's logits: 2 bytes each instead of 4, and 2 for the gradient
    EXPECT_GE(wide.peak_bytes, 6 * elements);
    EXPECT_LE(narrow.peak_bytes, wide.peak_bytes - 3 * elements);
  }
}

// ---- Weights converted once a step ----

// With tokens enough that what is kept of them is more than all weights.
recipe::Recipe half_precision(int64_t micro_steps, const recipe::Layout& layout = {}) {
  recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
  recipe.train.sequence = 4096;
  recipe.train.micro_steps = micro_steps;
  recipe.train.precision = ir::DType::bf16;
  recipe.layout = layout;
  return recipe;
}

int64_t bytes_of_copies(const StagePrograms& chip) {
  int64_t bytes = 0;
  for (const memory::StateSlot& slot : chip.memory.state)
    if (slot.role == ir::Role::weight_copy) bytes += slot.type.bytes();
  return bytes;
}

int64_t conversions(const StagePrograms& chip) {
  return std::ranges::count(chip.step, ProgramKind::convert_weights,
                            [&chip](const Action& action) { return chip.kind_of(action); });
}

class ConvertOnceTest : public testing::TestWithParam<recipe::Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ConvertOnceTest,
                         testing::Values(recipe::Layout{}, recipe::Layout{.data_parallel = 2, .zero = 2},
                                         recipe::Layout{.tensor_parallel = 2}));

// Names of a program's inputs of a role.
std::set<std::string> inputs_of(const Program& program, ir::Role role) {
  std::set<std::string> names;
  for (const ir::NodeId id : program.graph.inputs())
    if (program.graph.node(id).role == role) names.insert(program.graph.node(id).attrs.text("name"));
  return names;
}

TEST_P(ConvertOnceTest, OneProgramOfEachStageMakesCopiesThatMicroStepsRead) {
  const Compiled compiled = compile_training(plan::make_plan(half_precision(2, GetParam())), plain_target());
  for (const StagePrograms& chip : compiled.stages) {
    EXPECT_EQ(conversions(chip), 1);
    EXPECT_EQ(chip.kind_of(chip.step.front()), ProgramKind::convert_weights);
    const Program& conversion = chip.find(ProgramKind::convert_weights);
    std::set<std::string> made, read;
    for (const ir::Output& output : conversion.graph.outputs()) made.insert(output.donated);
    EXPECT_FALSE(made.empty());
    for (const Program& program : chip.programs) {
      if (program.kind == ProgramKind::convert_weights) continue;
      const std::set<std::string> copies = inputs_of(program, ir::Role::weight_copy);
      read.insert(copies.begin(), copies.end());
      const bool is_update = program.kind == ProgramKind::update;
      EXPECT_FALSE(is_update && !copies.empty()) << "it changes the weights themselves";
      const std::set<std::string> weights = inputs_of(program, ir::Role::weight);
      EXPECT_FALSE(!is_update && weights.contains("block00.A.wq")) << "which products alone read";
    }
    EXPECT_EQ(read, made);
  }
  EXPECT_NE(compiled.stages[0].find_state("bf16.block00.A.wq"), nullptr);
}

TEST_P(ConvertOnceTest, CopiesAreStateOfOneStepShardedAsTheirWeights) {
  const Compiled with = compile_training(plan::make_plan(half_precision(2, GetParam())), plain_target());
  const Compiled without =
      compile_training(plan::make_plan(half_precision(2, GetParam())), plain_target(), {.without = {"convert_once"}});
  for (size_t stage = 0; stage < with.stages.size(); ++stage) {
    const StagePrograms &chip = with.stages[stage], &before = without.stages[stage];
    int64_t weights = 0;
    for (const StateTensor& tensor : chip.state) {
      if (tensor.role != ir::Role::weight_copy) continue;
      EXPECT_FALSE(tensor.kept || tensor.trainable || !tensor.staged_as.empty()) << tensor.name;
      const StateTensor* weight = chip.find_state(tensor.name.substr(std::string("bf16.").size()));
      ASSERT_NE(weight, nullptr) << tensor.name;
      EXPECT_EQ(tensor.sharding, weight->sharding) << tensor.name;
      EXPECT_EQ(tensor.whole, (ir::TensorType{ir::DType::bf16, weight->whole.shape})) << tensor.name;
      weights += local_type(*weight, with.mesh).bytes();
    }
    EXPECT_EQ(bytes_of_copies(chip), weights / 2);
    EXPECT_EQ(bytes_of_copies(before), 0);
    EXPECT_EQ(chip.state.size() -
                  static_cast<size_t>(std::ranges::count(chip.state, ir::Role::weight_copy, &StateTensor::role)),
              before.state.size());
    EXPECT_GT(chip.memory.state_bytes, before.memory.state_bytes);
    EXPECT_LE(chip.memory.lower_bound, before.memory.lower_bound + before.memory.lower_bound / 100)
        << "what was there at the peak anyway";
    EXPECT_LT(chip.flops, before.flops) << "conversions count as elementwise work";
    const memory::ProgramPlan& conversion = chip.memory.programs[chip.index_of(ProgramKind::convert_weights)];
    EXPECT_TRUE(conversion.final_copies.empty()) << "they are written where they stand";
    EXPECT_EQ(conversion.temporary_bytes, 0);
  }
  EXPECT_EQ(kept_bytes(with), kept_bytes(without)) << "no checkpoint has them";
}

// Copies are there in the update and at the end of the backward pass too, where converted weights were gone. With few
// tokens that is where most bytes are alive: in Muon's update, and where ZeRO 2 scatters gradients.
TEST(ConvertOnceTest, CopiesThatWouldTakeMoreAreNotHeld) {
  const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml";
  const std::vector<std::string> base = {"train.precision=bf16", "train.micro_steps=2", "train.recompute=none"};
  const std::vector<std::string> few = {"train.batch=2", "train.sequence=32"};
  for (const std::vector<std::string>& layout : {std::vector<std::string>{"optimizer.name=muon"},
                                                 std::vector<std::string>{"layout.data_parallel=2", "layout.zero=2"}}) {
    SCOPED_TRACE(layout[0]);
    std::vector<std::string> settings = base;
    settings.insert(settings.end(), layout.begin(), layout.end());
    const Compiled many = compile_training(plan::make_plan(recipe::load(file, settings)), plain_target());
    EXPECT_GT(bytes_of_copies(many.stages[0]), 0) << "of 8 x 256 tokens more is kept than of weights";
    settings.insert(settings.end(), few.begin(), few.end());
    const recipe::Recipe recipe = recipe::load(file, settings);
    const Compiled held = compile_training(plan::make_plan(recipe), plain_target());
    const Compiled without = compile_training(plan::make_plan(recipe), plain_target(), {.without = {"convert_once"}});
    EXPECT_EQ(bytes_of_copies(held.stages[0]), 0);
    EXPECT_FALSE(held.stages[0].has(ProgramKind::convert_weights));
    EXPECT_EQ(held.stages[0].memory.total_bytes, without.stages[0].memory.total_bytes);
  }
}

// Converted where they are read, they are gone behind it: a copy would be there for the whole step.
TEST(ConvertOnceTest, WeightsThatAMicroStepConvertsTwiceAreNotHeld) {
  recipe::Recipe recomputed = half_precision(2);
  for (auto& [letter, level] : recomputed.train.recompute) level = recipe::RecomputeLevel::full;
  for (const recipe::Recipe& recipe :
       {recomputed, half_precision(2, {.data_parallel = 2, .zero = 3}), half_precision(2, {.pipeline_parallel = 2})}) {
    const Compiled compiled = compile_training(plan::make_plan(recipe), plain_target());
    EXPECT_EQ(compiled.stages[0].find_state("bf16.block00.A.wq"), nullptr);
  }
}

TEST(ConvertOnceTest, ASingleMicroStepAndF32HaveNoCopies) {
  const auto ran = [](const Compiled& compiled) {
    return std::ranges::any_of(compiled.passes,
                               [](const PassTime& pass) { return pass.name.ends_with("-convert_once"); });
  };
  const Compiled single = compile_training(plan::make_plan(half_precision(1)), plain_target());
  EXPECT_FALSE(ran(single));
  const base::Problem problem = testing_support::problem_of(base::Code::E1007, [] {
    compile_training(plan::make_plan(half_precision(1)), plain_target(), {.without = {"convert_once"}});
  });
  EXPECT_NE(problem.got.find("a step has one micro-step"), std::string::npos) << problem.got;
  recipe::Recipe wide = half_precision(2);
  wide.train.precision = ir::DType::f32;
  const Compiled f32 = compile_training(plan::make_plan(wide), plain_target());
  for (const Compiled* compiled : {&single, &f32}) {
    EXPECT_FALSE(compiled->stages[0].has(ProgramKind::convert_weights));
    EXPECT_EQ(bytes_of_copies(compiled->stages[0]), 0);
  }
}

TEST(ConvertOnceTest, CompilersThatScheduleOrFuseByThemselvesGetTheConversions) {
  schedule::Target scheduling = plain_target(), placing = plain_target();
  scheduling.schedules_itself = placing.places_itself = true;
  for (const schedule::Target& target : {scheduling, placing})
    EXPECT_FALSE(
        compile_training(plan::make_plan(half_precision(2)), target).stages[0].has(ProgramKind::convert_weights));
}

// Of a compiler that places buffers and makes elementwise values again: its plan does not keep them either.
TEST(RecomputeCheapTest, IsPlannedForACompilerWhoseFusionsDoIt) {
  schedule::Target keeping = plain_target();
  keeping.places_itself = true;
  schedule::Target making = keeping;
  making.ops_per_byte = 2;
  const auto bytes_for = [](const schedule::Target& target) {
    return compile_training(plan::make_plan(half_precision(1)), target).stages[0].memory.total_bytes;
  };
  EXPECT_LT(bytes_for(making), bytes_for(keeping));
  making.schedules_itself = keeping.schedules_itself = true;
  const auto text_for = [](const schedule::Target& target) {
    return ir::print(compile_training(plan::make_plan(half_precision(1)), target).stages[0].programs[0].graph);
  };
  EXPECT_EQ(text_for(making), text_for(keeping)) << "one that schedules too gets its programs as they are";
}

}  // namespace
}  // namespace megacpp::compile
