// SPDX-License-Identifier: Apache-2.0
// A training over processes with a chip each, through NCCL, has the losses of one process with as many virtual chips:
// to the last digit, since sums have the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/device_processes/gpu_processes.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {
namespace {

struct Row {
  const char* name;
  int64_t chips;
  std::vector<std::string> overrides;
};

const std::vector<Row>& layout_rows() {
  static const std::vector<Row> rows = {
      {"data", 2, {"layout.data_parallel=2"}},
      {"zero3", 2, {"layout.data_parallel=2", "layout.zero=3"}},
      {"tensor", 2, {"layout.tensor_parallel=2"}},
      {"expert", 2, {"layout.expert_parallel=2"}},
      {"zero3", 4, {"layout.data_parallel=4", "layout.zero=3"}},
      {"tensor_and_data", 4, {"layout.tensor_parallel=2", "layout.data_parallel=2", "layout.zero=1"}},
      {"stages", 2, {"layout.pipeline_parallel=2", "train.micro_steps=2"}},
  };
  return rows;
}

recipe::Recipe small_recipe(const Row& row) {
  std::vector<std::string> overrides = {"backend=cuda",      "model.pattern=AEMER", "model.depth=5",
                                        "train.batch=4",     "train.sequence=32",   "train.steps=4",
                                        "train.log_every=1", "train.precision=bf16"};
  overrides.insert(overrides.end(), row.overrides.begin(), row.overrides.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", overrides);
}

// A line for each step whose loss this process has.
std::string trained_losses(const recipe::Recipe& recipe, const collectives::Transport& transport) {
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const data::Batches batches(corpus, train::batch_options(recipe));
  const plan::Plan plan = plan::make_plan(recipe);
  const int64_t chips = plan.parallel.mesh.chips();
  const compile::Compiled compiled = compile::compile_training(plan, runtime::cuda::cuda_target(chips, transport));
  runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe), chips);
  options.transport = transport;
  const std::unique_ptr<runtime::Executable> run = runtime::cuda::load(compiled, options);
  train::RunState(compiled, *run).initialise_weights(1);
  std::string lines;
  for (const train::StepReport& report : train::train({recipe, compiled, batches, *run}))
    if (report.loss) lines += fmt::format("step {}: {:a}\n", report.step, *report.loss);
  return lines;
}

// The loss is made on the chips of one process, or the same on several.
std::string losses_left_in(const std::filesystem::path& folder, int64_t processes) {
  std::string losses;
  for (int64_t process = 0; process < processes; ++process) {
    const std::string own = base::read_file(folder / std::to_string(process));
    if (own.empty()) continue;
    EXPECT_TRUE(losses.empty() || losses == own) << "processes have other losses:\n" << losses << own;
    losses = own;
  }
  return losses;
}

class NcclTrainingTest : public testing::TestWithParam<Row> {};

TEST_P(NcclTrainingTest, HasTheLossesOfOneProcess) {
  const TemporaryFolder one, many;
  const recipe::Recipe recipe = small_recipe(GetParam());
  const auto alone = [&](int64_t, std::unique_ptr<collectives::Endpoint>) {
    base::write_file_atomically(one / "0", trained_losses(recipe, collectives::inproc_transport()));
    return kDone;
  };
  const std::vector<int> first = run_forked(1, alone);
  if (first.front() == kNoGpu) GTEST_SKIP() << "no GPU or no NCCL: the process says why";
  ASSERT_EQ(first, std::vector<int>{kDone});
  const auto together = [&](int64_t process, std::unique_ptr<collectives::Endpoint> endpoint) {
    base::write_file_atomically(many / std::to_string(process),
                                trained_losses(recipe, socket_transport(std::move(endpoint))));
    return kDone;
  };
  const int64_t chips = GetParam().chips;
  ASSERT_EQ(run_forked(chips, together), std::vector<int>(static_cast<size_t>(chips), kDone));
  const std::string wanted = losses_left_in(one.path(), 1);
  EXPECT_EQ(std::ranges::count(wanted, '\n'), 4) << wanted;
  EXPECT_EQ(losses_left_in(many.path(), chips), wanted);
}

INSTANTIATE_TEST_SUITE_P(Layouts, NcclTrainingTest, testing::ValuesIn(layout_rows()), [](const auto& info) {
  return std::string(info.param.name) + std::to_string(info.param.chips);
});

}  // namespace
}  // namespace megacpp::testing_support
