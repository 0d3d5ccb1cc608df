// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/executable_contract.h"

#include <gtest/gtest.h>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/confirm_start.h"
#include "megacpp/run/train/run_state.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

const data::TextCorpus& corpus() {
  static const data::TextCorpus text =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  return text;
}

}  // namespace

recipe::Recipe small_recipe(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.depth=2",
                                  "model.hidden=16",
                                  "model.attention.head_dim=8",
                                  "train.batch=2",
                                  "train.sequence=8",
                                  "train.micro_steps=2",
                                  "train.steps=3",
                                  "train.log_every=1",
                                  "train.threads=2",
                                  "optimizer.lr=0.01",
                                  "optimizer.clip=0.5",
                                  "optimizer.warmup_steps=2",
                                  "xla.cache=off",
                                  "model.feed_forward.intermediate=24"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", all);
}

ContractRun::ContractRun(recipe::Recipe recipe, const runtime::Backend& backend, Fetches fetches)
    : recipe_(std::move(recipe)),
      plan_(plan::make_plan(recipe_)),
      compiled_(compile::compile_training(
          plan_, runtime::target_on(backend, recipe::run_request(recipe_), plan_.parallel.mesh))) {
  runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe_), compiled_.mesh.chips());
  if (fetches == Fetches::experts) options.fetches = train::expert_fetches(compiled_);
  executable_ = runtime::load_on(backend, recipe::run_request(recipe_), compiled_, options);
  train::confirm_start(plan_, compiled_, *executable_);
  train::RunState(compiled_, *executable_).initialise_weights(static_cast<uint64_t>(recipe_.train.seed));
}

std::vector<train::StepReport> ContractRun::train(const train::Options& options) {
  const data::Batches batches(corpus(), train::batch_options(recipe_));
  return train::train({recipe_, compiled_, batches, *executable_}, options);
}

void expect_state_contract(const recipe::Recipe& recipe, const runtime::Backend& backend) {
  ContractRun run(recipe, backend);
  runtime::Executable& executable = run.executable();
  size_t kept = 0;
  for (const compile::StateTensor& tensor : executable.state(0)) {
    SCOPED_TRACE(tensor.name);
    const auto bytes = static_cast<size_t>(compile::local_type(tensor, run.compiled().mesh).bytes());
    std::vector<std::byte> written(bytes, std::byte{0x3D}), read(bytes);
    if (!tensor.kept) {
      problem_of(base::Code::E1203, [&] { executable.write_state(tensor.name, 0, written); });
      problem_of(base::Code::E1203, [&] { executable.read_state(tensor.name, 0, read); });
      continue;
    }
    ++kept;
    EXPECT_EQ(executable.state_bytes(tensor.name, 0), static_cast<int64_t>(bytes));
    executable.write_state(tensor.name, 0, written);
    executable.read_state(tensor.name, 0, read);
    EXPECT_EQ(read, written);
    written.resize(bytes - 1);
    problem_of(base::Code::E1203, [&] { executable.write_state(tensor.name, 0, written); });
    problem_of(base::Code::E1203, [&] { executable.read_state(tensor.name, 0, written); });
  }
  EXPECT_EQ(kept, 3 * run.compiled().parameters.size()) << "weights and two moments of each";
  const std::string next = problem_of(base::Code::E1203, [&] { executable.write_state("embed.wieght", 0, {}); }).next;
  EXPECT_NE(next.find("embed.weight"), std::string::npos) << next;
}

void expect_step_contract(const recipe::Recipe& recipe, const runtime::Backend& backend) {
  ContractRun run(recipe, backend);
  runtime::Executable& executable = run.executable();
  const std::vector<int32_t> ids(16);
  const auto bytes = std::as_bytes(std::span(ids));
  problem_of(base::Code::E1203, [&] { executable.stage_batch("batch.idz", 0, 0, bytes); });
  problem_of(base::Code::E1203, [&] { executable.stage_batch("batch.ids", 2, 0, bytes); });
  problem_of(base::Code::E1203, [&] { executable.stage_batch("lr", 1, 0, bytes.first(4)); });
  problem_of(base::Code::E1203, [&] { executable.stage_batch("batch.ids", 0, 0, bytes.first(4)); });
  EXPECT_EQ(run.train().size(), 3U);
  EXPECT_EQ(executable.fetch_f32("loss", 0).size(), 2U) << "one for each micro-step";
  EXPECT_EQ(executable.fetch_f32("grad_norm", 0).size(), 1U);
  problem_of(base::Code::E1203, [&] { executable.fetch("logits", 0); });
  problem_of(base::Code::E1203,
             [&] { runtime::load_on(backend, recipe::run_request(recipe), run.compiled(), {.fetches = {"los"}}); });
  const runtime::Counters counters = executable.counters();
  EXPECT_EQ(counters.executions, 3);
  EXPECT_EQ(counters.compiles.size(), 1U);
}

}  // namespace megacpp::testing_support
