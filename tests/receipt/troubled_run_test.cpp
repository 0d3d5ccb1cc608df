// SPDX-License-Identifier: Apache-2.0
// Runs with something wrong in their steps, and the verdict that follows: what happens on the device reaches the
// verdict through the loop's own counting and timing, nothing is written into a receipt by hand.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/evidence/receipt/collect.h"
#include "megacpp/evidence/receipt/steps.h"
#include "megacpp/evidence/receipt/verdict.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cpu/cpu_device.h"
#include "megacpp/machine/runtime/native_executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/open_source.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"

namespace megacpp {
namespace {

constexpr const char* kRecipe = R"(name: troubled
model:
  pattern: AE
  depth: 2
  hidden: 16
  vocab: 256
  attention: {heads: 2, kv_heads: 2, head_dim: 8}
  feed_forward: {intermediate: 32}
train: {batch: 2, sequence: 8, steps: 40, log_every: 1, threads: 1}
)";

/// What goes wrong in one step.
struct Trouble {
  int64_t programs = 0;  // made
  int64_t host_syncs = 0;
  std::chrono::milliseconds pause{0};
};
using TroubleAt = std::function<Trouble(int64_t step)>;

Trouble none(int64_t) { return {}; }

class TroubledRun : public runtime::NativeExecutable {
 public:
  TroubledRun(const compile::Compiled& compiled, runtime::NativeBackend backend, TroubleAt trouble)
      : NativeExecutable(compiled, {}, std::move(backend)), trouble_(std::move(trouble)) {}

  void run_step(runtime::StepMode mode) override {
    NativeExecutable::run_step(mode);
    const Trouble now = trouble_(step_++);
    programs_ += now.programs;
    syncs_ += now.host_syncs;
    std::this_thread::sleep_for(now.pause);
  }
  runtime::Counters counters() const override {
    runtime::Counters counters = NativeExecutable::counters();
    counters.compiles["another shape"] += programs_;
    counters.host_syncs += syncs_;
    return counters;
  }
  int64_t programs_made() const override { return NativeExecutable::programs_made() + programs_; }

 private:
  TroubleAt trouble_;
  int64_t step_ = 0;
  int64_t programs_ = 0;
  int64_t syncs_ = 0;
};

std::vector<train::StepReport> train_with(const recipe::Recipe& recipe, const compile::Compiled& compiled,
                                          const TroubleAt& trouble) {
  const std::shared_ptr<collectives::World> world =
      collectives::inproc_transport().make({.chips = 1, .wait_limit = std::chrono::seconds(10)});
  const auto device = [&](int64_t chip) -> std::unique_ptr<runtime::ChipDevice> {
    const runtime::Link link{compiled.mesh, chip, world->communicator(chip)};
    const runtime::cpu::CpuDevice::Options options{.arena_bytes = compiled.programs_of(chip).memory.total_bytes,
                                                   .transport = collectives::inproc_transport()};
    return std::make_unique<runtime::cpu::CpuDevice>(link, options);
  };
  const runtime::NativeBackend backend{.path = "cpu", .world = world, .device = device, .limits = {{0, 0}}};
  TroubledRun run(compiled, backend, trouble);
  train::RunState(compiled, run).initialise_weights(1);
  const std::unique_ptr<data::TokenSource> source = data::open_source(recipe.data);
  const data::Batches batches(*source, train::batch_options(recipe));
  return train::train({.recipe = recipe, .compiled = compiled, .batches = batches, .run = run});
}

/// The reasons of a run with this trouble, on a backend without a kernel for `lacking`.
std::set<std::string> reasons_with(const TroubleAt& trouble, const std::string& lacking = "") {
  const std::vector<std::string> text = {"data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs/errors.md]"};
  const recipe::Recipe recipe = recipe::parse(kRecipe, "a recipe", text);
  const plan::Plan plan = plan::make_plan(recipe);
  schedule::Target target =
      runtime::target_on(runtime::backend_named("cpu"), recipe::run_request(recipe), plan.parallel.mesh);
  target.runs = [runs = target.runs, lacking](std::string_view op, const ops::NodeView& view) {
    return op == lacking ? base::Decision::no("no kernel in this test") : runs(op, view);
  };
  const compile::Compiled compiled = compile::compile_training(plan, target);
  receipt::Receipt receipt;
  receipt.header.versions.code = "this one";
  receipt.ending.kind = receipt::EndingKind::finished;
  receipt.ending.requested_steps = recipe.train.steps;
  receipt.counters.fallbacks = receipt::fallbacks_of(compiled);
  receipt::add_steps(receipt, train_with(recipe, compiled, trouble));
  std::set<std::string> names;
  for (const receipt::Reason& reason : receipt::verdict_of(receipt).reasons) names.insert(reason.name);
  return names;
}

/// Steps of so small a model are as steady as the machine is idle.
std::set<std::string> but_spread(std::set<std::string> reasons) {
  reasons.erase("unstable spread");
  return reasons;
}

using Reasons = std::set<std::string>;

TEST(TroubledRunTest, WithoutTroubleThereIsNoReason) { EXPECT_EQ(but_spread(reasons_with(none)), Reasons{}); }

TEST(TroubledRunTest, AProgramMadeAfterTheWarmUpIsAReasonAndOneBeforeIsNone) {
  const auto made_at = [](int64_t when) {
    return [when](int64_t step) { return Trouble{.programs = step == when ? 1 : 0}; };
  };
  EXPECT_EQ(but_spread(reasons_with(made_at(20))), Reasons{"compile after warm-up"});
  EXPECT_EQ(but_spread(reasons_with(made_at(2))), Reasons{});
}

TEST(TroubledRunTest, AHostThatWaitsInASteadyStepIsAReason) {
  EXPECT_EQ(but_spread(reasons_with([](int64_t step) { return Trouble{.host_syncs = step == 30 ? 1 : 0}; })),
            Reasons{"host sync"});
}

TEST(TroubledRunTest, StepsThatTakeTwoTimesAreUnstable) {
  const auto pause = [](int64_t step) { return Trouble{.pause = std::chrono::milliseconds(step % 2 == 0 ? 8 : 0)}; };
  EXPECT_EQ(reasons_with(pause), Reasons{"unstable spread"});
}

TEST(TroubledRunTest, AnOpWithoutAKernelIsAFallback) {
  EXPECT_EQ(but_spread(reasons_with(none, "rms_norm")), Reasons{"fallback"});
}

}  // namespace
}  // namespace megacpp
