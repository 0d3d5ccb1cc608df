// SPDX-License-Identifier: Apache-2.0
// Whole small models, one for every family and option: the compiled gradient program against finite differences of the
// forward graph, both by the reference evaluator.
#include "megacpp/program/compile/compile.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/optim/update.h"
#include "tests/support/errors.h"
#include "tests/support/model_inputs.h"
#include "tests/support/plain_target.h"
#include "tests/support/small_models.h"
#include "tests/support/small_training.h"

namespace megacpp::compile {
namespace {

using ops::Rounding;
using ops::Tensor;
using testing_support::plain_target;
using testing_support::small_training;
using testing_support::target_with_epilogues;

constexpr model::Batch kBatch{.sequences = 2, .length = 6, .compute = ir::DType::f32};

class SmallModelTest : public testing::TestWithParam<recipe::Model> {};
INSTANTIATE_TEST_SUITE_P(Models, SmallModelTest, testing::ValuesIn(testing_support::small_models()),
                         [](const testing::TestParamInfo<recipe::Model>& info) { return info.param.name; });

TEST_P(SmallModelTest, CompiledGradientsEqualFiniteDifferences) {
  const recipe::Model& config = GetParam();
  const model::ForwardModel forward = model::build_forward(config, kBatch);
  const Compiled compiled = compile_gradients({.forward = forward}, plain_target());
  auto inputs = testing_support::model_inputs(forward.graph, forward.parameters, config.vocab);
  const auto got = ops::evaluate(compiled.stages[0].find(ProgramKind::gradients).graph, inputs, Rounding::none);
  const auto loss = [&] { return ops::evaluate(forward.graph, inputs, Rounding::none).at("loss")[0]; };
  EXPECT_NEAR(got.at("loss")[0], loss(), 1e-9);
  constexpr double kStep = 1e-6;
  for (const blocks::Parameter& parameter : forward.parameters) {
    if (!parameter.trainable) continue;
    Tensor& tensor = inputs.at(parameter.name);
    const Tensor& gradient = got.at(optim::gradient_name(parameter.name));
    for (int64_t e = 0; e < tensor.elements(); e += 1 + tensor.elements() / 4) {
      const double saved = tensor[e];
      tensor[e] = saved + kStep;
      const double up = loss();
      tensor[e] = saved - kStep;
      const double down = loss();
      tensor[e] = saved;
      EXPECT_NEAR(gradient[e], (up - down) / (2 * kStep), 1e-6) << parameter.name << " element " << e;
    }
  }
}

TEST_P(SmallModelTest, EpiloguesLeaveFewerSumsAndTheSameGradients) {
  const model::ForwardModel forward = model::build_forward(GetParam(), kBatch);
  const auto gradients_on = [&](const schedule::Target& target) {
    return compile_gradients({.forward = forward}, target).stages[0].find(ProgramKind::gradients).graph;
  };
  const ir::Graph plain = gradients_on(plain_target()), folded = gradients_on(target_with_epilogues());
  EXPECT_LT(folded.nodes().size(), plain.nodes().size());
  const auto inputs = testing_support::model_inputs(forward.graph, forward.parameters, GetParam().vocab);
  const auto wanted = ops::evaluate(plain, inputs, Rounding::none), got = ops::evaluate(folded, inputs, Rounding::none);
  for (const auto& [name, tensor] : wanted)
    for (int64_t i = 0; i < tensor.elements(); ++i) ASSERT_NEAR(got.at(name)[i], tensor[i], 1e-9) << name << " " << i;
}

TEST_P(SmallModelTest, GradientsOfASingleMicroStepAreWrittenNotAdded) {
  recipe::Recipe recipe;
  recipe.name = "small";
  recipe.model = GetParam();
  recipe.train = {.batch = 2, .sequence = 8, .micro_steps = 1, .steps = 1};
  const StagePrograms chip = compile_training(plan::make_plan(recipe), plain_target()).stages[0];
  for (const memory::ProgramPlan& program : chip.memory.programs)
    for (const memory::Buffers::Copy& copy : program.final_copies) ADD_FAILURE() << copy.to_state << " is copied";
  const ir::Graph& micro_step = chip.find(ProgramKind::micro_step).graph;
  for (const ir::Node& node : micro_step.nodes())
    for (const ir::ValueId operand : node.operands)
      EXPECT_FALSE(micro_step.producer(operand).op == ir::kInputOp &&
                   micro_step.producer(operand).attrs.text("name").starts_with("grad."))
          << ir::print(micro_step);
  for (const ir::Output& output : chip.find(ProgramKind::update).graph.outputs())
    EXPECT_FALSE(output.name.starts_with("grad.")) << output.name;
}

TEST_P(SmallModelTest, ParametersAreTheWeightsOfTheGraph) {
  const model::ForwardModel forward = model::build_forward(GetParam(), kBatch);
  std::vector<std::string> weights, named;
  for (const ir::NodeId id : forward.graph.inputs())
    if (forward.graph.node(id).role == ir::Role::weight) weights.push_back(forward.graph.node(id).attrs.text("name"));
  for (const blocks::Parameter& parameter : forward.parameters) named.push_back(parameter.name);
  EXPECT_EQ(weights, named);
}

TEST(CompileTrainingTest, RecomputeKeepsGradientsAndSavesMemory) {
  std::map<std::string, std::map<std::string, Tensor>> outputs;
  std::map<std::string, int64_t> bytes;
  using recipe::RecomputeLevel;
  for (const RecomputeLevel level : {RecomputeLevel::none, RecomputeLevel::selective, RecomputeLevel::full}) {
    const std::string policy(base::text_of(level));
    const Compiled compiled = compile_training(plan::make_plan(small_training(level)), plain_target());
    const StagePrograms& chip = compiled.stages[0];
    const ir::Graph& step = chip.find(ProgramKind::micro_step).graph;
    outputs[policy] = ops::evaluate(step, testing_support::model_inputs(step, compiled.parameters, 11), Rounding::none);
    bytes[policy] = chip.memory.programs[chip.index_of(ProgramKind::micro_step)].lower_bound;
  }
  for (const auto& [name, tensor] : outputs["none"]) {
    EXPECT_TRUE(testing_support::is_close(outputs["selective"].at(name), tensor, 1e-9)) << name;
    EXPECT_TRUE(testing_support::is_close(outputs["full"].at(name), tensor, 1e-9)) << name;
  }
  EXPECT_LT(bytes["full"], bytes["none"]);
  EXPECT_LE(bytes["selective"], bytes["none"]);
}

TEST(CompileTrainingTest, FrozenWeightsCostNoGradientNoStateAndNoProductOfTheirGradient) {
  recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
  const Compiled whole = compile_training(plan::make_plan(recipe), plain_target());
  recipe.model.lora = {.rank = 2, .targets = {"block*.A.w*"}};
  const Compiled adapted = compile_training(plan::make_plan(recipe), plain_target());
  size_t frozen = 0, adapters = 0;
  for (const StateTensor& tensor : adapted.stages[0].state) {
    const bool is_adapter = blocks::is_adapter(tensor.name);
    const bool is_for_training = tensor.role == ir::Role::gradient || tensor.role == ir::Role::optimizer;
    EXPECT_TRUE(is_adapter || !is_for_training) << tensor.name;
    if (tensor.role != ir::Role::weight) continue;
    EXPECT_TRUE(tensor.kept) << tensor.name;
    EXPECT_EQ(tensor.trainable, is_adapter) << tensor.name;
    ++(is_adapter ? adapters : frozen);
  }
  EXPECT_EQ(adapters, 8u);
  EXPECT_EQ(frozen, whole.parameters.size());
  const ir::Graph& update = adapted.stages[0].find(ProgramKind::update).graph;
  for (const ir::NodeId id : update.inputs()) {
    const ir::Node& node = update.node(id);
    const std::string& name = node.attrs.text("name");
    EXPECT_TRUE(node.role == ir::Role::batch || blocks::is_adapter(name)) << name;
  }
  EXPECT_LT(adapted.stages[0].memory.total_bytes, whole.stages[0].memory.total_bytes);
  EXPECT_LT(adapted.flops_per_step(), whole.flops_per_step());
}

TEST(CompileTrainingTest, StateIsReplacedInPlaceWithoutCopies) {
  const Compiled compiled =
      compile_training(plan::make_plan(small_training(recipe::RecomputeLevel::none)), plain_target());
  for (const memory::ProgramPlan& program : compiled.stages[0].memory.programs)
    EXPECT_TRUE(program.final_copies.empty());
  EXPECT_GT(compiled.flops_per_step(), 0.0);
  EXPECT_TRUE(compiled.fallbacks.empty());
}

TEST(CompileTrainingTest, SameRecipeGivesSameTextAndEveryPassIsDumped) {
  const auto folder = std::filesystem::temp_directory_path() / ("megacpp_compile_test" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Compiled first = compile_training(plan::make_plan(small_training(recipe::RecomputeLevel::full)), plain_target(),
                                          {.dump_dir = folder});
  const Compiled again =
      compile_training(plan::make_plan(small_training(recipe::RecomputeLevel::full)), plain_target());
  const StagePrograms &one = first.stages[0], &other = again.stages[0];
  for (size_t p = 0; p < one.programs.size(); ++p)
    EXPECT_EQ(ir::print(one.programs[p].graph), ir::print(other.programs[p].graph));
  EXPECT_EQ(one.memory.total_bytes, other.memory.total_bytes);
  for (const PassTime& pass : first.passes) {
    const bool is_memory = pass.name == "23-memory";
    EXPECT_TRUE(std::filesystem::exists(folder / (pass.name + (is_memory ? ".txt" : ".ir")))) << pass.name;
  }
  std::filesystem::remove_all(folder);
}

// The states that runs of a sequence hand on are gathered by every chip of the context; nothing asks for that.
TEST(CompileTrainingTest, ImplicitReplicationIsRefusedWithWhatIsEnough) {
  recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
  recipe.model = testing_support::with_experts("experts", blocks::RoutedBy::tokens, 1.0);
  recipe.layout.context_parallel = 2;
  int64_t enough_alone = 0;
  for (const int64_t data : {1, 2}) {
    recipe.layout.data_parallel = data;
    recipe.layout.max_replicated_bytes = 0;
    const base::Problem problem = testing_support::problem_of(
        base::Code::E1408, [&] { compile_training(plan::make_plan(recipe), plain_target()); });
    EXPECT_NE(problem.where.find("E.router"), std::string::npos) << problem.where;
    EXPECT_NE(problem.got.find("along context"), std::string::npos) << problem.got;
    const std::string next = "set layout.context_parallel: 1, or layout.max_replicated_bytes: ";
    ASSERT_TRUE(problem.next.starts_with(next)) << problem.next;
    const int64_t enough = std::stoll(problem.next.substr(next.size()));
    recipe.layout.max_replicated_bytes = enough;
    EXPECT_NO_THROW(compile_training(plan::make_plan(recipe), plain_target()));
    recipe.layout.max_replicated_bytes = enough - 1;
    EXPECT_THROW(compile_training(plan::make_plan(recipe), plain_target()), base::Error);
    if (data == 1) enough_alone = enough;
    EXPECT_EQ(enough * data, enough_alone) << "what data splits is not counted";
  }
}

TEST(CompileTrainingTest, GatheredWeightsAreNoImplicitReplication) {
  recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
  recipe.model = testing_support::small_model("dense", "AE");
  recipe.layout = {.data_parallel = 2, .zero = 3, .max_replicated_bytes = 64};  // less than any matrix has
  EXPECT_NO_THROW(compile_training(plan::make_plan(recipe), plain_target()));
}

// Blocks whose gradients are reduced while other nodes run.
std::set<std::string> reduced_beside_work(const ir::Graph& graph) {
  std::set<std::string> blocks;
  for (const ir::Node& node : graph.nodes()) {
    const std::string_view op = ops::started_op(node);
    if (node.op == ops::kStartOp && (op == "all_reduce" || op == "reduce_scatter"))
      blocks.insert(std::string(ir::scope_block(node.scope)));
  }
  return blocks;
}

TEST(CompileTrainingTest, GradientsOfASingleMicroStepAreReducedBesideTheBackwardPass) {
  for (const int64_t zero : {0, 1}) {
    recipe::Recipe recipe = small_training(recipe::RecomputeLevel::none);
    recipe.model.hidden = recipe.model.config<blocks::Recurrent>().width =
        32;  // gradients large enough to travel by themselves
    recipe.layout = {.data_parallel = 2, .zero = zero};
    const Compiled waiting = compile_training(plan::make_plan(recipe), plain_target());
    recipe.train.micro_steps = 1;
    const Compiled early = compile_training(plan::make_plan(recipe), plain_target());
    const StagePrograms &before = waiting.stages[0], &after = early.stages[0];
    for (const char* block : {"block00", "block01", "block02", "block03"}) {
      EXPECT_FALSE(reduced_beside_work(before.find(ProgramKind::micro_step).graph).contains(block)) << block;
      EXPECT_TRUE(reduced_beside_work(after.find(ProgramKind::micro_step).graph).contains(block))
          << block << " zero " << zero;
    }
    for (const memory::ProgramPlan& program : after.memory.programs) EXPECT_TRUE(program.final_copies.empty());
    // Only what is in flight has two buffers.
    int64_t gradients = 0;
    for (const memory::StateSlot& slot : before.memory.state)
      if (slot.role == ir::Role::gradient) gradients += slot.type.bytes();
    EXPECT_LT(after.memory.total_bytes, before.memory.total_bytes + gradients / 2) << "zero " << zero;
  }
}

// ---- Micro-steps alone ----

TEST(MicroStepsTest, AloneTheyAreTheProgramOfATraining) {
  for (const recipe::Layout& layout : {recipe::Layout{}, recipe::Layout{.data_parallel = 2, .zero = 1},
                                       recipe::Layout{.data_parallel = 2, .zero = 3}}) {
    recipe::Recipe recipe = small_training(recipe::RecomputeLevel::full);
    recipe.layout = layout;
    const StagePrograms whole = compile_training(plan::make_plan(recipe), plain_target()).stages[0];
    const StagePrograms alone = compile_micro_steps(plan::make_plan(recipe), plain_target()).stages[0];
    ASSERT_EQ(alone.programs.size(), 1u) << "no update";
    const ir::Graph &got = alone.programs[0].graph, &wanted = whole.find(ProgramKind::micro_step).graph;
    EXPECT_EQ(ir::print(got), ir::print(wanted));
    EXPECT_EQ(alone.memory.total_bytes, memory::plan_memory({&wanted}, plain_target()).total_bytes);
    EXPECT_EQ(alone.flops, whole.flops);
  }
}

}  // namespace
}  // namespace megacpp::compile
