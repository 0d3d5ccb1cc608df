// SPDX-License-Identifier: Apache-2.0
// The model is abstract until each chip's own part of it stands in that chip's arena: the host never holds more than
// one such part beside the arenas, and what was loaded is what was planned before step 0.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/run/train/confirm_start.h"
#include "megacpp/run/train/run_state.h"
#include "tests/start_up/heap_peak.h"
#include "tests/support/errors.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp {
namespace {

using testing_support::HeapWatch;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSmall = kMiB / 4;         // threads, names, lists of pieces
constexpr int64_t kCallsOfAChip = 2 * kMiB;  // its prepared kernels, whatever the tensors' sizes

struct Case {
  std::string name;
  recipe::Layout layout;
  bool splits_embedding = true;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> all_cases() {
  recipe::Layout tensor, zero, mixed, stages;
  tensor.tensor_parallel = 4;
  zero.data_parallel = 8;
  zero.zero = 3;
  mixed.data_parallel = mixed.expert_parallel = mixed.tensor_parallel = 2;
  stages.pipeline_parallel = 2;
  return {{"one_chip", {}, false},
          {"tensor4", tensor},
          {"zero3_data8", zero},
          {"mixed8", mixed},
          {"stages2", stages, false}};
}

// 8 MiB of embedding in a small model.
recipe::Recipe recipe_of(const recipe::Layout& layout) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.model.depth = 4;
  recipe.model.vocab = 1 << 15;
  recipe.layout = layout;
  recipe.train.batch = 8;
  recipe.train.sequence = 16;
  return recipe;
}

class StartUpTest : public testing::TestWithParam<Case> {
 protected:
  StartUpTest()
      : recipe_(recipe_of(GetParam().layout)),
        plan_(plan::make_plan(recipe_)),
        compiled_(compile::compile_training(plan_, runtime::cpu::cpu_target(1))) {
    for (const blocks::Parameter& parameter : compiled_.parameters) {
      const ir::Sharding stored = plan::spec_of(plan_, parameter).stored;
      const auto bytes = [](const ir::Shape& shape) { return 4 * ir::num_elements(shape); };
      whole_ = std::max(whole_, bytes(parameter.shape));
      part_ = std::max(part_, bytes(ir::local_shape(parameter.shape, stored, compiled_.mesh)));
    }
  }

  std::unique_ptr<runtime::Executable> load() const { return runtime::cpu::load(compiled_, {.threads = 1}); }

  recipe::Recipe recipe_;
  plan::Plan plan_;
  compile::Compiled compiled_;
  int64_t whole_ = 0, part_ = 0;  // bytes of the largest parameter, and of the largest part of one
};
INSTANTIATE_TEST_SUITE_P(Layouts, StartUpTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(StartUpTest, LoadingTakesNothingThatGrowsWithTheTensors) {
  const HeapWatch heap;
  const auto run = load();
  train::confirm_start(plan_, compiled_, *run);
  EXPECT_LE(heap.peak_bytes(), kCallsOfAChip * run->chips());
  EXPECT_LT(heap.largest_bytes(), kMiB);
}

TEST_P(StartUpTest, DrawingTheWeightsTakesOnePartOfTheLargestParameter) {
  EXPECT_EQ(whole_, 8 * kMiB);
  EXPECT_EQ(part_ < whole_, GetParam().splits_embedding);
  const auto run = load();
  const HeapWatch heap;
  train::RunState(compiled_, *run).initialise_weights(7);
  EXPECT_LE(heap.peak_bytes(), part_ + kSmall);
  EXPECT_LE(heap.largest_bytes(), part_ + kSmall) << "the largest parameter has " << whole_;
  EXPECT_LE(heap.held_bytes(), kSmall) << "nothing of it stays";
}

TEST(AbstractTest, CompilingHoldsNoTensor) {
  recipe::Recipe small = recipe_of({}), huge = recipe_of({});
  huge.model.vocab = 1 << 19;
  huge.model.hidden = 8192;  // 16 GiB of embedding
  const auto peak = [](const recipe::Recipe& recipe) {
    const HeapWatch heap;
    compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1));
    EXPECT_LT(heap.largest_bytes(), kMiB);
    return heap.peak_bytes();
  };
  const int64_t wanted = peak(small);
  EXPECT_LE(peak(huge), wanted + wanted / 4);
}

// A run that says what it is told to.
class OtherRun : public runtime::Executable {
 public:
  OtherRun(const compile::Compiled& compiled, const runtime::Executable& run)
      : Executable(compiled, {}), run_(run), chips_(run.chips()), local_chips_(run.local_chips()) {}
  void set_chips(int64_t chips) { chips_ = chips; }
  void set_bytes(const std::string& name, std::optional<int64_t> bytes) { bytes_[name] = bytes; }

  int64_t chips() const override { return chips_; }
  const std::vector<int64_t>& local_chips() const override { return local_chips_; }
  std::optional<int64_t> state_bytes(const std::string& name, int64_t chip) const override {
    const auto told = bytes_.find(name);
    return told != bytes_.end() && chip == chips_ - 1 ? told->second : run_.state_bytes(name, chip);
  }
  void run_step(runtime::StepMode) override {}
  runtime::ChipMemory memory(int64_t) const override { return {}; }
  std::string path() const override { return "other"; }
  runtime::Counters counters() const override { return {}; }
  int64_t programs_made() const override { return 0; }

 private:
  void put_state(const compile::StateTensor&, int64_t, std::span<const std::byte>) override {}
  void get_state(const compile::StateTensor&, int64_t, std::span<std::byte>) const override {}
  void put_batch(const runtime::StagedInput&, int64_t, int64_t, std::span<const std::byte>) override {}
  void get_output(const runtime::FetchedOutput&, int64_t, std::span<std::byte>) const override {}

  const runtime::Executable& run_;
  int64_t chips_;
  std::vector<int64_t> local_chips_;
  std::map<std::string, std::optional<int64_t>> bytes_;
};

class ConfirmStartTest : public testing::Test {
 protected:
  ConfirmStartTest() {
    recipe::Layout layout;
    layout.tensor_parallel = layout.data_parallel = 2;
    recipe_ = testing_support::hybrid_recipe();
    recipe_.layout = layout;
    plan_ = plan::make_plan(recipe_);
    compiled_ = compile::compile_training(plan_, runtime::cpu::cpu_target(1));
    run_ = runtime::cpu::load(compiled_, {.threads = 1});
  }

  compile::StateTensor& state_named(const std::string& name) {
    return *std::ranges::find(compiled_.stages[0].state, name, &compile::StateTensor::name);
  }
  void erase_state(const std::string& name) {
    std::erase_if(compiled_.stages[0].state, [&](const auto& tensor) { return tensor.name == name; });
  }

  std::string difference(const runtime::Executable& run) const {
    return testing_support::problem_of(base::Code::E9001, [&] { train::confirm_start(plan_, compiled_, run); }).got;
  }

  recipe::Recipe recipe_;
  plan::Plan plan_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
};

TEST_F(ConfirmStartTest, ARunAsPlannedPasses) { EXPECT_NO_THROW(train::confirm_start(plan_, compiled_, *run_)); }

TEST_F(ConfirmStartTest, AnotherMeshIsFound) {
  recipe_.layout.tensor_parallel = 4;
  recipe_.layout.data_parallel = 1;
  plan_ = plan::make_plan(recipe_);
  EXPECT_EQ(difference(*run_), "compiled for the mesh data=2, model=2, planned was model=4");
}

TEST_F(ConfirmStartTest, AnotherNumberOfChipsIsFound) {
  OtherRun other(compiled_, *run_);
  other.set_chips(3);
  EXPECT_EQ(difference(other), "loaded on 3 chips, planned were 4");
}

TEST_F(ConfirmStartTest, AnotherShapeIsFound) {
  state_named("embed.weight").whole.shape = {256, 65};
  EXPECT_EQ(difference(*run_), "embed.weight is f32[256,65], planned was f32[256,64]");
}

TEST_F(ConfirmStartTest, AnotherShardingIsFoundInOptimizerStateToo) {
  state_named("adam_v.embed.weight").sharding = ir::Sharding::replicated(2);
  EXPECT_NE(difference(*run_).find("adam_v.embed.weight is sharded as -,-, planned was "), std::string::npos);
}

TEST_F(ConfirmStartTest, StateThatAChipHoldsOtherwiseIsFoundWithTheChip) {
  OtherRun other(compiled_, *run_);
  other.set_bytes("adam_m.embed.weight", 12);
  EXPECT_NE(difference(other).find("chip 3: data 1, model 1 holds 12 bytes of adam_m.embed.weight, planned was "),
            std::string::npos)
      << difference(other);
  OtherRun without(compiled_, *run_);
  without.set_bytes("embed.weight", std::nullopt);
  EXPECT_EQ(difference(without), "chip 3: data 1, model 1 has no embed.weight");
}

TEST_F(ConfirmStartTest, StateThatNoProgramHasIsFound) {
  compile::Compiled whole = compiled_;
  erase_state("adam_m.embed.weight");
  EXPECT_EQ(difference(*run_), "no program has the planned state adam_m.embed.weight");
  compiled_ = std::move(whole);
  erase_state("embed.weight");
  EXPECT_EQ(difference(*run_), "no chip has the parameter embed.weight");
}

}  // namespace
}  // namespace megacpp
