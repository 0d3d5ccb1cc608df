// SPDX-License-Identifier: Apache-2.0
// A training on a GPU has the same bits every time, as one graph or enqueued anew, once the algorithms of its products
// are kept.
#include <gtest/gtest.h>

#include <map>
#include <memory>
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
#include "tests/parity/layout_rows.h"
#include "tests/support/environment.h"
#include "tests/support/gpu_test.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::testing_support {
namespace {

struct TrainedBits {
  bool has_copies = false;  // of weights, for all micro-steps
  int64_t host_bytes = 0;   // planned in pinned memory, of a chip of the first stage
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>> state;  // all that is kept between steps, by chip and name
  std::string repeats;
};

// Steps that are profiled are no graph.
TrainedBits train_on_gpu(recipe::Recipe recipe, bool profile, const std::vector<std::string>& without = {}) {
  const runtime::Backend& cuda = runtime::backend_named("cuda");
  recipe.backend = cuda.name;
  recipe.train.log_every = 1;
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const data::Batches batches(corpus, train::batch_options(recipe));
  const plan::Plan plan = plan::make_plan(recipe);
  const compile::Compiled compiled = compile::compile_training(
      plan, runtime::target_on(cuda, recipe::run_request(recipe), plan.parallel.mesh), {.without = without});
  runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe), compiled.mesh.chips());
  options.profile = profile;
  const std::unique_ptr<runtime::Executable> run =
      runtime::load_on(cuda, recipe::run_request(recipe), compiled, options);
  train::RunState(compiled, *run).initialise_weights(1);
  TrainedBits bits{.has_copies = compiled.stages[0].has(compile::ProgramKind::convert_weights),
                   .host_bytes = compiled.stages[0].memory.of_host().bytes};
  for (const train::StepReport& report : train::train({recipe, compiled, batches, *run}))
    bits.losses.push_back(report.loss.value());
  for (const int64_t chip : run->local_chips())
    for (const compile::StateTensor& tensor : run->state(chip)) {
      if (!tensor.kept) continue;
      std::vector<std::byte>& bytes = bits.state[std::to_string(chip) + " " + tensor.name];
      bytes.resize(static_cast<size_t>(run->state_bytes(tensor.name, chip).value()));
      run->read_state(tensor.name, chip, bytes);
    }
  bits.repeats = run->repeats();
  return bits;
}

void expect_same_bits(const TrainedBits& got, const TrainedBits& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_EQ(got.repeats, wanted.repeats);
  ASSERT_EQ(got.state.size(), wanted.state.size());
  for (const auto& [name, bytes] : wanted.state) EXPECT_TRUE(got.state.at(name) == bytes) << name;
}

class CudaRepeatTest : public GpuTest, public testing::WithParamInterface<LayoutRow> {};

TEST_P(CudaRepeatTest, FiveStepsHaveTheSameBitsAsAGraphAndOneByOne) {
  const TemporaryFolder cache;
  const Variable own_cache("XDG_CACHE_HOME", cache.path().string());
  const recipe::Recipe recipe = recipe_of(GetParam(), 1);
  const TrainedBits first = train_on_gpu(recipe, false);
  ASSERT_EQ(first.losses.size(), 5U);
  expect_same_bits(train_on_gpu(recipe, false), first);
  expect_same_bits(train_on_gpu(recipe, true), first);
}

TEST_P(CudaRepeatTest, StateInTheHostsMemoryHasTheBitsOfStateOnTheDevice) {
  const TemporaryFolder cache;
  const Variable own_cache("XDG_CACHE_HOME", cache.path().string());
  recipe::Recipe recipe = recipe_of(GetParam(), 1);
  const TrainedBits on_device = train_on_gpu(recipe, false);
  recipe.layout.offload = recipe::Offload::optimizer;
  expect_same_bits(train_on_gpu(recipe, false), on_device);
}

// As many tokens as make activations worth a copy. A copy that came too late, or over bytes still in use, would change
// gradients.
class CudaOffloadTest : public GpuTest, public testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, CudaOffloadTest,
    testing::Values(std::vector<std::string>{}, std::vector<std::string>{"train.recompute=full"},
                    std::vector<std::string>{"layout.tensor_parallel=2"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=3"},
                    std::vector<std::string>{"layout.pipeline_parallel=2"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "layout.schedule=zero_bubble"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "layout.schedule=interleaved",
                                             "layout.virtual_stages=2"},
                    std::vector<std::string>{"layout.offload_blocks=[M]"}));

TEST_P(CudaOffloadTest, ActivationsInTheHostsMemoryHaveTheBitsOfThoseOnTheDevice) {
  const TemporaryFolder cache;
  const Variable own_cache("XDG_CACHE_HOME", cache.path().string());
  std::vector<std::string> settings = {"train.batch=8",        "train.sequence=256",  "train.steps=3",
                                       "train.precision=bf16", "train.micro_steps=2", "optimizer.warmup_steps=1"};
  settings.insert(settings.end(), GetParam().begin(), GetParam().end());
  recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings);
  const TrainedBits on_device = train_on_gpu(recipe, false);
  ASSERT_EQ(on_device.losses.size(), 3U);
  EXPECT_EQ(on_device.host_bytes, 0);
  for (const recipe::Offload offload : {recipe::Offload::activations, recipe::Offload::all}) {
    recipe.layout.offload = offload;
    const TrainedBits on_host = train_on_gpu(recipe, false);
    EXPECT_GT(on_host.host_bytes, 0) << base::text_of(offload);
    expect_same_bits(on_host, on_device);
  }
}

// What reads a copy gets the number that a conversion in its place would have stored: not one that a cluster, an
// epilogue or a recomputed value still has in its registers.
class CudaCopiesTest : public GpuTest, public testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Layouts, CudaCopiesTest,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"layout.tensor_parallel=2"},
                                         std::vector<std::string>{"layout.data_parallel=2", "layout.zero=2"}));

TEST_P(CudaCopiesTest, HaveTheBitsOfConvertingInEveryMicroStep) {
  const TemporaryFolder cache;
  const Variable own_cache("XDG_CACHE_HOME", cache.path().string());
  std::vector<std::string> settings = {"model.pattern=AEMR",  "model.depth=8",           "train.batch=4",
                                       "train.sequence=64",   "train.steps=3",           "train.precision=bf16",
                                       "train.micro_steps=2", "optimizer.warmup_steps=1"};
  settings.insert(settings.end(), GetParam().begin(), GetParam().end());
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings);
  const TrainedBits once = train_on_gpu(recipe, false), each = train_on_gpu(recipe, false, {"convert_once"});
  EXPECT_TRUE(once.has_copies);
  EXPECT_FALSE(each.has_copies);
  ASSERT_EQ(once.losses.size(), 3U);
  expect_same_bits(each, once);
}

const std::vector<std::string> kRepeated = {
    "train.precision=bf16 chips=1",
    "train.precision=bf16 data_parallel=2 zero=3",
    "train.precision=bf16 tensor_parallel=2 pipeline_parallel=2",
};

INSTANTIATE_TEST_SUITE_P(Nam52, CudaRepeatTest, testing::ValuesIn(rows_of("nam52-tiny", kFewBlocks52, kRepeated)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56r, CudaRepeatTest,
                         testing::ValuesIn(rows_of("nam56r-tiny", kFewBlocks56r,
                                                   {kRepeated[0], kRepeated[1],
                                                    "train.precision=bf16 expert_parallel=2"})),
                         row_name);

}  // namespace
}  // namespace megacpp::testing_support
