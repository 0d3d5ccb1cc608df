// SPDX-License-Identifier: Apache-2.0
// Whole small models, one for every family and option: the compiled gradient program against finite differences of the
// forward graph, both by the reference evaluator.
#include "megacpp/compile/compile.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "megacpp/base/file.h"
#include "megacpp/blocks/lora.h"
#include "megacpp/blocks/recurrent.h"
#include "megacpp/compile/state_table.h"
#include "megacpp/ir/text.h"
#include "megacpp/ops/collective_start.h"
#include "megacpp/ops/evaluator.h"
#include "megacpp/ops/host_copy.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/optim/update.h"
#include "megacpp/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/model_inputs.h"
#include "tests/support/plain_target.h"
#include "tests/support/small_models.h"

namespace megacpp::compile {
namespace {

using ops::Rounding;
using ops::Tensor;
using testing_support::plain_target;

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

schedule::Target target_with_epilogues() {
  schedule::Target target = plain_target();
  target.has_epilogues = true;
  return target;
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
  const StagePrograms chip = compile_training(recipe, plain_target()).stages[0];
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

recipe::Recipe small_recipe(const std::string& recompute) {
  recipe::Recipe recipe;
  recipe.name = "small";
  recipe.model = testing_support::small_models()[4];
  recipe.train = {.batch = 2, .sequence = 8, .micro_steps = 2, .steps = 1};
  for (auto& [letter, level] : recipe.train.recompute) level = recompute;
  return recipe;
}

TEST(CompileTrainingTest, RecomputeKeepsGradientsAndSavesMemory) {
  std::map<std::string, std::map<std::string, Tensor>> outputs;
  std::map<std::string, int64_t> bytes;
  for (const char* policy : {"none", "selective", "full"}) {
    const Compiled compiled = compile_training(small_recipe(policy), plain_target());
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
  recipe::Recipe recipe = small_recipe("none");
  const Compiled whole = compile_training(recipe, plain_target());
  recipe.model.lora = {.rank = 2, .targets = {"block*.A.w*"}};
  const Compiled adapted = compile_training(recipe, plain_target());
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
  const Compiled compiled = compile_training(small_recipe("none"), plain_target());
  for (const memory::ProgramPlan& program : compiled.stages[0].memory.programs)
    EXPECT_TRUE(program.final_copies.empty());
  EXPECT_GT(compiled.flops_per_step(), 0.0);
  EXPECT_TRUE(compiled.fallbacks.empty());
}

TEST(CompileTrainingTest, SameRecipeGivesSameTextAndEveryPassIsDumped) {
  const auto folder = std::filesystem::temp_directory_path() / ("megacpp_compile_test" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Compiled first = compile_training(small_recipe("full"), plain_target(), {.dump_dir = folder});
  const Compiled again = compile_training(small_recipe("full"), plain_target());
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
  recipe::Recipe recipe = small_recipe("none");
  recipe.model = testing_support::with_experts("experts", "token_choice", 1.0);
  recipe.layout.context_parallel = 2;
  int64_t enough_alone = 0;
  for (const int64_t data : {1, 2}) {
    recipe.layout.data_parallel = data;
    recipe.layout.max_replicated_bytes = 0;
    const base::Problem problem =
        testing_support::problem_of(base::Code::E1408, [&] { compile_training(recipe, plain_target()); });
    EXPECT_NE(problem.where.find("E.router"), std::string::npos) << problem.where;
    EXPECT_NE(problem.got.find("along context"), std::string::npos) << problem.got;
    const std::string next = "set layout.context_parallel: 1, or layout.max_replicated_bytes: ";
    ASSERT_TRUE(problem.next.starts_with(next)) << problem.next;
    const int64_t enough = std::stoll(problem.next.substr(next.size()));
    recipe.layout.max_replicated_bytes = enough;
    EXPECT_NO_THROW(compile_training(recipe, plain_target()));
    recipe.layout.max_replicated_bytes = enough - 1;
    EXPECT_THROW(compile_training(recipe, plain_target()), base::Error);
    if (data == 1) enough_alone = enough;
    EXPECT_EQ(enough * data, enough_alone) << "what data splits is not counted";
  }
}

TEST(CompileTrainingTest, GatheredWeightsAreNoImplicitReplication) {
  recipe::Recipe recipe = small_recipe("none");
  recipe.model = testing_support::small_model("dense", "AE");
  recipe.layout = {.data_parallel = 2, .zero = 3, .max_replicated_bytes = 64};  // less than any matrix has
  EXPECT_NO_THROW(compile_training(recipe, plain_target()));
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
    recipe::Recipe recipe = small_recipe("none");
    recipe.model.hidden = recipe.model.config<blocks::Recurrent>().width =
        32;  // gradients large enough to travel by themselves
    recipe.layout = {.data_parallel = 2, .zero = zero};
    const Compiled waiting = compile_training(recipe, plain_target());
    recipe.train.micro_steps = 1;
    const Compiled early = compile_training(recipe, plain_target());
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

// ---- Logits in bf16 ----

// Logits are most of what a chip holds.
recipe::Recipe large_vocabulary() {
  recipe::Recipe recipe = small_recipe("none");
  recipe.model = testing_support::small_model("attention", "A");
  recipe.model.vocab = 4096;
  recipe.train.sequence = 16;
  recipe.train.micro_steps = 1;
  recipe.train.precision = "bf16";
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
  const StagePrograms chip = compile_training(large_vocabulary(), target).stages[0];
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

// ---- Micro-steps alone ----

TEST(MicroStepsTest, AloneTheyAreTheProgramOfATraining) {
  for (const recipe::Layout& layout : {recipe::Layout{}, recipe::Layout{.data_parallel = 2, .zero = 1},
                                       recipe::Layout{.data_parallel = 2, .zero = 3}}) {
    recipe::Recipe recipe = small_recipe("full");
    recipe.layout = layout;
    const StagePrograms whole = compile_training(recipe, plain_target()).stages[0];
    const StagePrograms alone = compile_micro_steps(recipe, plain_target()).stages[0];
    ASSERT_EQ(alone.programs.size(), 1u) << "no update";
    const ir::Graph &got = alone.programs[0].graph, &wanted = whole.find(ProgramKind::micro_step).graph;
    EXPECT_EQ(ir::print(got), ir::print(wanted));
    EXPECT_EQ(alone.memory.total_bytes, memory::plan_memory({&wanted}, plain_target()).total_bytes);
    EXPECT_EQ(alone.flops, whole.flops);
  }
}

// ---- Weights converted once a step ----

// With tokens enough that what is kept of them is more than all weights.
recipe::Recipe half_precision(int64_t micro_steps, const recipe::Layout& layout = {}) {
  recipe::Recipe recipe = small_recipe("none");
  recipe.train.sequence = 4096;
  recipe.train.micro_steps = micro_steps;
  recipe.train.precision = "bf16";
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
  const Compiled compiled = compile_training(half_precision(2, GetParam()), plain_target());
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
  const Compiled with = compile_training(half_precision(2, GetParam()), plain_target());
  const Compiled without =
      compile_training(half_precision(2, GetParam()), plain_target(), {.without = {"convert_once"}});
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
    const Compiled many = compile_training(recipe::load(file, settings), plain_target());
    EXPECT_GT(bytes_of_copies(many.stages[0]), 0) << "of 8 x 256 tokens more is kept than of weights";
    settings.insert(settings.end(), few.begin(), few.end());
    const recipe::Recipe recipe = recipe::load(file, settings);
    const Compiled held = compile_training(recipe, plain_target());
    const Compiled without = compile_training(recipe, plain_target(), {.without = {"convert_once"}});
    EXPECT_EQ(bytes_of_copies(held.stages[0]), 0);
    EXPECT_FALSE(held.stages[0].has(ProgramKind::convert_weights));
    EXPECT_EQ(held.stages[0].memory.total_bytes, without.stages[0].memory.total_bytes);
  }
}

// Converted where they are read, they are gone behind it: a copy would be there for the whole step.
TEST(ConvertOnceTest, WeightsThatAMicroStepConvertsTwiceAreNotHeld) {
  recipe::Recipe recomputed = half_precision(2);
  for (auto& [letter, level] : recomputed.train.recompute) level = "full";
  for (const recipe::Recipe& recipe :
       {recomputed, half_precision(2, {.data_parallel = 2, .zero = 3}), half_precision(2, {.pipeline_parallel = 2})}) {
    const Compiled compiled = compile_training(recipe, plain_target());
    EXPECT_EQ(compiled.stages[0].find_state("bf16.block00.A.wq"), nullptr);
  }
}

TEST(ConvertOnceTest, ASingleMicroStepAndF32HaveNoCopies) {
  const auto ran = [](const Compiled& compiled) {
    return std::ranges::any_of(compiled.passes,
                               [](const PassTime& pass) { return pass.name.ends_with("-convert_once"); });
  };
  const Compiled single = compile_training(half_precision(1), plain_target());
  EXPECT_FALSE(ran(single));
  const base::Problem problem = testing_support::problem_of(
      base::Code::E1007, [] { compile_training(half_precision(1), plain_target(), {.without = {"convert_once"}}); });
  EXPECT_NE(problem.got.find("a step has one micro-step"), std::string::npos) << problem.got;
  recipe::Recipe wide = half_precision(2);
  wide.train.precision = "f32";
  const Compiled f32 = compile_training(wide, plain_target());
  for (const Compiled* compiled : {&single, &f32}) {
    EXPECT_FALSE(compiled->stages[0].has(ProgramKind::convert_weights));
    EXPECT_EQ(bytes_of_copies(compiled->stages[0]), 0);
  }
}

TEST(ConvertOnceTest, CompilersThatScheduleOrFuseByThemselvesGetTheConversions) {
  schedule::Target scheduling = plain_target(), placing = plain_target();
  scheduling.schedules_itself = placing.places_itself = true;
  for (const schedule::Target& target : {scheduling, placing})
    EXPECT_FALSE(compile_training(half_precision(2), target).stages[0].has(ProgramKind::convert_weights));
}

// Of a compiler that places buffers and makes elementwise values again: its plan does not keep them either.
TEST(RecomputeCheapTest, IsPlannedForACompilerWhoseFusionsDoIt) {
  schedule::Target keeping = plain_target();
  keeping.places_itself = true;
  schedule::Target making = keeping;
  making.ops_per_byte = 2;
  const auto bytes_for = [](const schedule::Target& target) {
    return compile_training(half_precision(1), target).stages[0].memory.total_bytes;
  };
  EXPECT_LT(bytes_for(making), bytes_for(keeping));
  making.schedules_itself = keeping.schedules_itself = true;
  const auto text_for = [](const schedule::Target& target) {
    return ir::print(compile_training(half_precision(1), target).stages[0].programs[0].graph);
  };
  EXPECT_EQ(text_for(making), text_for(keeping)) << "one that schedules too gets its programs as they are";
}

// Every optimizer, on one chip and on several: the state of each is in one memory or the other, and replaced in place.
TEST(OffloadTest, StateIsPlannedInTheHostsMemoryAndStreamedInTheUpdateAlone) {
  schedule::Target target = testing_support::plain_target();
  target.has_host_memory = true;
  for (const std::string& optimizer : optim::optimizer_names())
    for (const char* layout : {"layout.data_parallel=1", "layout.data_parallel=2", "layout.pipeline_parallel=2"}) {
      SCOPED_TRACE(optimizer + " " + layout);
      const std::vector<std::string> base = {"optimizer.name=" + optimizer, layout, "train.micro_steps=2",
                                             "model.pattern=AEMR", "model.depth=4"};
      std::vector<std::string> offloaded = base;
      offloaded.push_back("layout.offload=optimizer");
      const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml";
      const Compiled before = compile_training(recipe::load(file, base), target);
      const Compiled after = compile_training(recipe::load(file, offloaded), target);
      for (size_t stage = 0; stage < after.stages.size(); ++stage) {
        const StagePrograms &one = before.stages[stage], &other = after.stages[stage];
        EXPECT_GT(other.memory.host_bytes, 0);
        EXPECT_EQ(one.memory.host_bytes, 0);
        EXPECT_EQ(other.memory.state_bytes + other.memory.host_bytes, one.memory.state_bytes);
        for (const memory::StateSlot& slot : other.memory.state)
          EXPECT_EQ(slot.space == memory::Space::host, slot.role == ir::Role::optimizer) << slot.name;
        for (const Program& program : other.programs) {
          const bool has_copies = std::ranges::any_of(
              program.graph.nodes(), [](const ir::Node& node) { return node.op == ops::kCopyStartOp; });
          EXPECT_EQ(has_copies, program.kind == ProgramKind::update) << program.graph.name();
        }
      }
    }
}

Compiled beside_a_host(const std::vector<std::string>& settings) {
  schedule::Target target = testing_support::plain_target();
  target.has_host_memory = true;
  return compile_training(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings),
                          target);
}

// Values that programs of a kind copy to the host: bytes, aligned, by letter of their block.
std::map<std::string, int64_t> stored_bytes(const StagePrograms& stage, ProgramKind kind) {
  std::map<std::string, int64_t> bytes;
  for (const Program& program : stage.programs)
    for (const ir::Node& node : program.graph.nodes())
      if (program.kind == kind && node.op == ops::kCopyStartOp && ops::is_in_host_memory(node))
        bytes[std::string(ir::scope_letter(node.scope))] +=
            (program.graph.type(node.results[0]).bytes() + 63) / 64 * 64;
  return bytes;
}

int64_t total_of(const std::map<std::string, int64_t>& bytes) {
  int64_t total = 0;
  for (const auto& [letter, of_letter] : bytes) total += of_letter;
  return total;
}

TEST(OffloadTest, ActivationsArePlannedInTheHostsMemoryBetweenThePasses) {
  const Compiled before = beside_a_host({"train.micro_steps=2"});
  const Compiled after = beside_a_host({"train.micro_steps=2", "layout.offload=activations"});
  const memory::MemoryPlan &one = before.stages[0].memory, &other = after.stages[0].memory;
  const std::map<std::string, int64_t> stored = stored_bytes(after.stages[0], ProgramKind::micro_step);
  EXPECT_EQ(stored.size(), 3U) << "A, E and M; the only R is the last block, which keeps its own";
  EXPECT_EQ(other.host_bytes, total_of(stored)) << "all of them are there when the forward pass ends";
  EXPECT_EQ(other.state_bytes, one.state_bytes) << "state stays";
  EXPECT_LT(2 * (other.total_bytes - other.state_bytes), one.total_bytes - one.state_bytes);
  EXPECT_EQ(total_of(stored_bytes(after.stages[0], ProgramKind::update)), 0);
  const Compiled longer = beside_a_host({"train.micro_steps=4", "layout.offload=activations"});
  EXPECT_EQ(longer.stages[0].memory.host_bytes, other.host_bytes) << "micro-steps follow each other in the same bytes";
}

TEST(OffloadTest, BlocksAreChosenByLetter) {
  const Compiled all = beside_a_host({"layout.offload=activations"});
  const Compiled some = beside_a_host({"layout.offload=activations", "layout.offload_blocks=[M]"});
  const std::map<std::string, int64_t> stored = stored_bytes(some.stages[0], ProgramKind::micro_step);
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored.begin()->first, "M");
  EXPECT_EQ(stored.at("M"), stored_bytes(all.stages[0], ProgramKind::micro_step).at("M")) << "as with all letters";
  EXPECT_EQ(some.stages[0].memory.host_bytes, stored.at("M"));
  EXPECT_LT(some.stages[0].memory.host_bytes, all.stages[0].memory.host_bytes);
  EXPECT_GT(some.stages[0].memory.total_bytes, all.stages[0].memory.total_bytes);
}

TEST(OffloadTest, AllIsStateAndActivations) {
  const Compiled state = beside_a_host({"layout.offload=optimizer"}),
                 activations = beside_a_host({"layout.offload=activations"});
  const Compiled both = beside_a_host({"layout.offload=all"});
  EXPECT_EQ(both.stages[0].memory.host_bytes,
            state.stages[0].memory.host_bytes + activations.stages[0].memory.host_bytes);
  EXPECT_EQ(both.stages[0].memory.state_bytes, state.stages[0].memory.state_bytes);
  EXPECT_EQ(state.stages[0].memory.host_activation_bytes, 0);
  EXPECT_EQ(both.stages[0].memory.host_activation_bytes, activations.stages[0].memory.host_bytes);
}

// Whether the chip itself has something to do behind the last copy that is waited for.
bool ends_with_work(const ir::Graph& graph) {
  const auto is_done = [](const ir::Node& node) { return node.op == ops::kCopyDoneOp; };
  const auto last = std::find_if(graph.nodes().rbegin(), graph.nodes().rend(), is_done);
  return std::any_of(graph.nodes().rbegin(), last, [](const ir::Node& node) {
    return ops::op_def(node.op).is_work() && !ops::op_def(node.op).is_collective;
  });
}

// What a forward program keeps is state of its micro-batch: every backward program has it from the host, but for what
// the last blocks leave.
TEST(OffloadTest, APipelineHandsActivationsOverThroughTheHost) {
  for (const char* schedule : {"layout.schedule=1f1b", "layout.schedule=zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const std::vector<std::string> base = {"train.micro_steps=4", "layout.pipeline_parallel=2", schedule};
    std::vector<std::string> offloaded = base;
    offloaded.push_back("layout.offload=activations");
    const Compiled before = beside_a_host(base), after = beside_a_host(offloaded);
    for (size_t stage = 0; stage < after.stages.size(); ++stage) {
      const StagePrograms& chip = after.stages[stage];
      int64_t on_host = 0;
      for (const memory::StateSlot& slot : chip.memory.state) {
        if (slot.space != memory::Space::host) continue;
        EXPECT_NE(slot.name.find(".kept."), std::string::npos) << slot.name;
        on_host += (slot.type.bytes() + 63) / 64 * 64;
      }
      EXPECT_GT(on_host, 0);
      for (const Program& program : chip.programs)
        EXPECT_TRUE(program.kind != ProgramKind::forward || ends_with_work(program.graph)) << program.graph.name();
      EXPECT_EQ(chip.memory.host_bytes, on_host) << "nothing but state";
      EXPECT_EQ(chip.memory.host_activation_bytes, on_host) << "of micro-batches";
      EXPECT_EQ(total_of(stored_bytes(chip, ProgramKind::forward)), on_host) << "each slot has its own";
      EXPECT_EQ(chip.memory.state_bytes + on_host, before.stages[stage].memory.state_bytes);
      EXPECT_LT(chip.memory.total_bytes, before.stages[stage].memory.total_bytes);
    }
  }
}

// Without a host beside it the programs are those without the key.
TEST(OffloadTest, ATargetWithOneMemoryKeepsEverythingThere) {
  const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  for (const char* offload : {"layout.offload=optimizer", "layout.offload=activations", "layout.offload=all"}) {
    const Compiled compiled =
        compile_training(recipe::load(file, std::vector<std::string>{offload}), testing_support::plain_target());
    EXPECT_EQ(compiled.stages[0].memory.host_bytes, 0) << offload;
  }
}

}  // namespace
}  // namespace megacpp::compile
