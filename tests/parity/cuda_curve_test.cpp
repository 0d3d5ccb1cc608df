// SPDX-License-Identifier: Apache-2.0
// A training on a GPU follows the loss curve of the CPU backend, long after the first steps that other tests compare.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/support/environment.h"
#include "tests/support/gpu_test.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {
namespace {

constexpr size_t kSteps = 300, kWindow = 20, kFirst = 10;

// Kernels add in another order than the CPU's, and a rounding error grows from step to step: experts that score almost
// alike are chosen otherwise, and weights drift apart as those of two seeds do. So single steps are compared while the
// drift is small, within what a few tokens that went to other experts move the loss of 1,024. After that two runs see
// the same text with weights that are as good: losses of single steps differ by a percent, and means over 20 steps,
// 20,480 tokens, by less. A wrong gradient or update is a curve of its own, which leaves these means within 300 steps.
struct Curve {
  std::string precision;
  double first;    // relative: each of the first kFirst steps
  double windows;  // relative: the mean of kWindow steps, all along
};
void PrintTo(const Curve& curve, std::ostream* out) { *out << curve.precision; }

// A fifth of a second a step on two cores of the CPU.
recipe::Recipe curve_recipe(const std::string& precision) {
  const std::vector<std::string> overrides = {
      "train.steps=" + std::to_string(kSteps), "train.log_every=1",  "train.batch=4",
      "train.precision=" + precision,          "optimizer.lr=0.001", "optimizer.eps=1e-6"};
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", overrides);
}

std::vector<double> losses_on(const std::string& backend_name, recipe::Recipe recipe) {
  const runtime::Backend& backend = runtime::backend_named(backend_name);
  recipe.backend = backend.name;
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/megacpp/program/ops"});
  const data::Batches batches(corpus, train::batch_options(recipe));
  const plan::Plan plan = plan::make_plan(recipe);
  const compile::Compiled compiled =
      compile::compile_training(plan, runtime::target_on(backend, recipe::run_request(recipe), plan.parallel.mesh));
  const std::unique_ptr<runtime::Executable> run =
      runtime::load_on(backend, recipe::run_request(recipe), compiled,
                       runtime::load_options(recipe::run_request(recipe), compiled.mesh.chips()));
  train::RunState(compiled, *run).initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  std::vector<double> losses;
  for (const train::StepReport& report : train::train({recipe, compiled, batches, *run}))
    losses.push_back(report.loss.value());
  return losses;
}

double mean_from(const std::vector<double>& losses, size_t begin) {
  const auto first = losses.begin() + static_cast<std::ptrdiff_t>(begin);
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(kWindow), 0.0) / static_cast<double>(kWindow);
}

class CudaCurveTest : public GpuTest, public testing::WithParamInterface<Curve> {};

TEST_P(CudaCurveTest, ThreeHundredStepsFollowTheCpuBackend) {
  const TemporaryFolder cache;
  const Variable own_cache("XDG_CACHE_HOME", cache.path().string());
  const recipe::Recipe recipe = curve_recipe(GetParam().precision);
  const std::vector<double> wanted = losses_on("cpu", recipe), got = losses_on("cuda", recipe);
  ASSERT_EQ(wanted.size(), kSteps);
  ASSERT_EQ(got.size(), kSteps);
  EXPECT_LT(mean_from(wanted, kSteps - kWindow), 0.7 * wanted[0]) << "nothing was learnt that could be compared";
  for (size_t step = 0; step < kFirst; ++step)
    EXPECT_NEAR(got[step] / wanted[step], 1.0, GetParam().first) << "step " << step;
  for (size_t begin = 0; begin < kSteps; begin += kWindow)
    EXPECT_NEAR(mean_from(got, begin) / mean_from(wanted, begin), 1.0, GetParam().windows)
        << "steps " << begin << " to " << begin + kWindow - 1;
}

INSTANTIATE_TEST_SUITE_P(Nam56r, CudaCurveTest, testing::Values(Curve{"f32", 1e-3, 1e-2}, Curve{"bf16", 1e-2, 1e-2}),
                         [](const testing::TestParamInfo<Curve>& info) { return info.param.precision; });

}  // namespace
}  // namespace megacpp::testing_support
