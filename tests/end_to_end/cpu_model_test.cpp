// SPDX-License-Identifier: Apache-2.0
// Small models of every family and option on the CPU backend: the same numbers as the reference evaluator, inside the
// planned bytes, without touching the heap, and the same bits every time.
#include <gtest/gtest.h>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/optim/update.h"
#include "tests/end_to_end/heap_count.h"
#include "tests/support/model_inputs.h"
#include "tests/support/small_models.h"

namespace megacpp::runtime::cpu {
namespace {

using ops::Tensor;
using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;
using Tensors = std::map<std::string, Tensor>;

// A compiled gradient program of one model, loaded with `threads` threads.
class Loaded {
 public:
  Loaded(const recipe::Model& config, ir::DType compute, int threads, int64_t length = 6)
      : compiled_(compile::compile_gradients(
            {.forward = model::build_forward(config, {.sequences = 2, .length = length, .compute = compute})},
            cpu_target(threads))),
        executable_(load(compiled_, {.threads = threads, .fetches = outputs_of(compiled_)})),
        inputs_(testing_support::model_inputs(graph(), compiled_.parameters, config.vocab)) {
    for (const compile::StateTensor& tensor : executable_->state(0)) {
      const std::vector<std::byte> bytes = testing_support::encoded(inputs_.at(tensor.name));
      if (tensor.kept)
        executable_->write_state(tensor.name, 0, bytes);
      else
        executable_->stage_batch(tensor.staged_as, 0, 0, bytes);
    }
  }

  Tensors run() {
    executable_->run_step(StepMode::plain);
    Tensors outputs;
    for (const ir::Output& output : graph().outputs())
      outputs[output.name] = decode(graph().type(output.value), executable_->fetch(output.name, 0).data());
    return outputs;
  }

  Tensors reference() const { return ops::evaluate(graph(), inputs_); }
  const Tensors& inputs() const { return inputs_; }
  Executable& executable() { return *executable_; }
  const compile::Compiled& compiled() const { return compiled_; }
  const ir::Graph& graph() const { return compiled_.stages[0].find(compile::ProgramKind::gradients).graph; }

 private:
  static std::vector<std::string> outputs_of(const compile::Compiled& compiled) {
    std::vector<std::string> names;
    for (const ir::Output& output : compiled.stages[0].programs[0].graph.outputs()) names.push_back(output.name);
    return names;
  }

  compile::Compiled compiled_;
  std::unique_ptr<Executable> executable_;
  Tensors inputs_;
};

void expect_close(const Tensors& got, const Tensors& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(is_close(got.at(name), tensor, tolerance)) << name;
}

class CpuModelTest : public testing::TestWithParam<recipe::Model> {};
INSTANTIATE_TEST_SUITE_P(Models, CpuModelTest, testing::ValuesIn(testing_support::small_models()),
                         [](const testing::TestParamInfo<recipe::Model>& info) { return info.param.name; });

TEST_P(CpuModelTest, GradientsEqualTheReference) {
  Loaded loaded(GetParam(), ir::DType::f32, 2);
  EXPECT_TRUE(loaded.compiled().fallbacks.empty());
  expect_close(loaded.run(), loaded.reference(), 1e-4);
  for (const compile::StateTensor& state : loaded.executable().state(0)) {
    if (!state.kept) continue;
    const Tensor& tensor = loaded.inputs().at(state.name);
    EXPECT_TRUE(is_close(testing_support::state_of(loaded.executable(), state.name, tensor.type), tensor, 0.0))
        << state.name << " was changed";
  }
}

TEST_P(CpuModelTest, NarrowComputeStaysNearTheReference) {
  Loaded loaded(GetParam(), ir::DType::bf16, 2);
  const Tensors got = loaded.run(), wanted = loaded.reference();
  EXPECT_NEAR(got.at("loss")[0], wanted.at("loss")[0], 0.05 * std::fabs(wanted.at("loss")[0]));
  for (const auto& [name, tensor] : got)
    for (const double element : tensor.data) ASSERT_TRUE(std::isfinite(element)) << name;
}

TEST_P(CpuModelTest, RepeatsBitForBitAndAgreesAcrossPools) {
  Loaded one(GetParam(), ir::DType::f32, 1), two(GetParam(), ir::DType::f32, 2);
  const Tensors first = one.run();
  expect_close(one.run(), first, 0.0);
  const Tensors on_two = two.run();
  expect_close(two.run(), on_two, 0.0);
  expect_close(on_two, first, 1e-5);
}

TEST_P(CpuModelTest, RunsInThePlannedBytesWithoutTheHeap) {
  Loaded loaded(GetParam(), ir::DType::f32, 2);
  loaded.executable().run_step(StepMode::plain);
  const int64_t before = testing_support::heap_allocations();
  EXPECT_GT(before, 0) << "allocations are counted";
  loaded.executable().run_step(StepMode::plain);
  EXPECT_EQ(testing_support::heap_allocations(), before) << "allocations while running";
  const ChipMemory memory = loaded.executable().memory();
  EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes);
  EXPECT_NO_THROW(loaded.executable().run_step(StepMode::check_values));
}

// Sizes that leave no tile, block or chunk whole, and are larger than one of each.
recipe::Model medium_model(const std::string& pattern) {
  recipe::Model config = testing_support::small_model("medium", pattern);
  config.hidden = 36;
  config.vocab = 101;
  config.init_std = 0.1;
  config.config<blocks::Attention>() = {.heads = 2, .kv_heads = 1, .head_dim = 12};
  config.config<blocks::FeedForward>() = {.intermediate = 50};
  config.config<blocks::Mamba>() = {.heads = 6, .head_dim = 12, .state = 10, .groups = 2, .chunk = 16};
  config.config<blocks::Recurrent>() = {.width = 69, .heads = 3};
  return config;
}

void expect_reference(const recipe::Model& config, int64_t length) {
  Loaded loaded(config, ir::DType::f32, 2, length);
  expect_close(loaded.run(), loaded.reference(), 1e-4);
}

TEST(CpuMediumModelTest, SequenceMixers) { expect_reference(medium_model("MR"), 75); }

TEST(CpuMediumModelTest, SequenceMixersWithDocuments) {
  recipe::Model config = medium_model("MR");
  config.config<blocks::Mamba>().document_mask = true;
  config.config<blocks::Recurrent>().document_mask = true;
  expect_reference(config, 75);
}

TEST(CpuMediumModelTest, AttentionOverSeveralBlocks) { expect_reference(medium_model("A"), 270); }

TEST(CpuMediumModelTest, AttentionWithWindowAndDocuments) {
  recipe::Model config = medium_model("A");
  config.config<blocks::Attention>().window = 37;
  config.config<blocks::Attention>().document_mask = true;
  config.config<blocks::Attention>().qk_norm = true;
  expect_reference(config, 150);
}

TEST(CpuMediumModelTest, BlockSparseAttention) {
  recipe::Model config = medium_model("A");
  config.config<blocks::Attention>().sparse_block = 16;
  config.config<blocks::Attention>().sparse_local = 2;
  config.config<blocks::Attention>().sparse_global = 1;
  expect_reference(config, 150);
}

TEST(CpuMediumModelTest, ExpertsByEveryRouting) {
  for (const auto& [routing, capacity] :
       {std::pair(blocks::RoutedBy::tokens, 1.0), {blocks::RoutedBy::tokens, 0.0}, {blocks::RoutedBy::experts, 1.0}}) {
    SCOPED_TRACE(base::text_of(routing));
    recipe::Model config = medium_model("E");
    config.config<blocks::FeedForward>() = {
        .intermediate = 50, .experts = 5, .routing = routing, .capacity_factor = capacity, .shared_intermediate = 20};
    expect_reference(config, 75);
  }
}

TEST(CpuTrainingTest, TwoStepsEqualTheReference) {
  recipe::Recipe recipe;
  recipe.model = testing_support::small_models()[4];
  recipe.train = {.batch = 2, .sequence = 6, .micro_steps = 2, .steps = 2};
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), cpu_target(2));
  const auto executable = load(compiled, {.threads = 2});
  Tensors state;
  for (const memory::StateSlot& slot : compiled.stages[0].memory.state) state[slot.name] = Tensor::zeros(slot.type);
  for (const auto& [name, tensor] :
       testing_support::model_inputs(compiled.stages[0].programs[0].graph, compiled.parameters, 11))
    if (name.rfind("grad.", 0) != 0) state[name] = tensor;
  state["lr"][0] = 0.01;
  const auto put = [&](const compile::StateTensor& tensor) {
    const std::vector<std::byte> bytes = testing_support::encoded(state.at(tensor.name));
    if (tensor.kept) executable->write_state(tensor.name, 0, bytes);
    const int64_t times = tensor.staged_as.empty() ? 0 : tensor.per_micro_step ? recipe.train.micro_steps : 1;
    for (int64_t micro = 0; micro < times; ++micro) executable->stage_batch(tensor.staged_as, micro, 0, bytes);
  };
  for (const compile::StateTensor& tensor : executable->state(0)) put(tensor);
  for (int step = 1; step <= 2; ++step) {
    state["step"][0] = step;
    put(*compiled.stages[0].find_state("step"));
    executable->run_step(StepMode::plain);
    for (const compile::Action& action : compiled.stages[0].step) {
      const Tensors outputs = ops::evaluate(compiled.stages[0].programs[action.program].graph, state);
      for (const ir::Output& output : compiled.stages[0].programs[action.program].graph.outputs())
        if (!output.donated.empty()) state[output.donated] = outputs.at(output.name);
    }
    for (const compile::StateTensor& tensor : executable->state(0)) {
      if (!tensor.kept) continue;
      EXPECT_TRUE(
          is_close(testing_support::state_of(*executable, tensor.name, tensor.whole), state.at(tensor.name), 2e-3))
          << tensor.name << " after step " << step;
    }
  }
}

}  // namespace
}  // namespace megacpp::runtime::cpu
