// SPDX-License-Identifier: Apache-2.0
// Every key that a table calls without effect: the programs are the same with it and without it. Where a table's
// condition does not hold, the same key changes them.
#include "megacpp/program/recipe/ignored_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/unused_layout_keys.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/unused_model_keys.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::testing_support {
namespace {

using Settings = std::vector<std::string>;

struct Row {
  std::string backend;
  Settings base;     // the recipe without the key
  std::string with;  // the key and a value: "layout.prefetch=3"
};

std::string key_of(const Row& row) { return row.with.substr(0, row.with.find('=')); }

recipe::Recipe recipe_of(const Row& row, bool is_set) {
  recipe::Recipe recipe = hybrid_recipe();
  recipe.model.depth = 4;
  recipe.train.micro_steps = 2;
  recipe.backend = row.backend;
  Settings settings = row.base;
  if (is_set) settings.push_back(row.with);
  recipe::apply_overrides(recipe, settings);
  return recipe;
}

// All that a backend gets of the compiler.
std::string programs_of(const recipe::Recipe& recipe) {
  const plan::Plan plan = plan::make_plan(recipe);
  const compile::Compiled compiled = compile::compile_training(
      plan,
      runtime::target_on(runtime::backend_named(recipe.backend), recipe::run_request(recipe), plan.parallel.mesh));
  std::string text;
  for (const compile::StagePrograms& stage : compiled.stages) {
    for (const compile::Program& program : stage.programs) text += ir::print(program.graph);
    for (const compile::Action& action : stage.step)
      text += std::to_string(action.program) + " of " + std::to_string(action.micro) + " " + action.prefix + "\n";
    text += std::to_string(stage.memory.total_bytes) + "\n";
  }
  return text;
}

bool is_reported(const Row& row) {
  const recipe::Recipe recipe = recipe_of(row, true);
  std::vector<recipe::IgnoredKey> table = runtime::backend_named(row.backend).ignores;
  for (const auto* more : {&recipe::unused_model_keys(), &plan::unused_layout_keys()})
    table.insert(table.end(), more->begin(), more->end());
  return std::ranges::any_of(recipe::ignored_keys(table, recipe, recipe::Use::run),
                             [&](const recipe::KeyWithoutEffect& found) { return found.key == key_of(row); });
}

bool changes_programs(const Row& row) {
  return programs_of(recipe_of(row, false)) != programs_of(recipe_of(row, true));
}

const Settings kData = {"layout.data_parallel=2"}, kZero3 = {"layout.data_parallel=2", "layout.zero=3"},
               kTensor = {"layout.tensor_parallel=2"}, kExperts = {"layout.expert_parallel=2"},
               kContext = {"layout.context_parallel=2"}, kStages = {"layout.pipeline_parallel=2"};

// A row for each line of the layouts' table.
std::vector<Row> ignored_by_layouts(const std::string& backend) {
  return {{backend, {}, "layout.sequence_parallel=false"},
          {backend, {}, "layout.expert_tensor_parallel=1"},
          {backend, {}, "layout.dispatcher=allgather"},
          {backend, {}, "layout.context_attention=alltoall"},
          {backend, {}, "layout.load_balance=false"},
          {backend, {"layout.context_parallel=2", "layout.context_attention=alltoall"}, "layout.load_balance=false"},
          {backend, {"layout.context_parallel=2", "model.pattern=MERE"}, "layout.context_attention=alltoall"},
          {backend, {"layout.context_parallel=2", "model.pattern=MERE"}, "layout.load_balance=false"},
          {backend, {}, "layout.zero=3"},
          {backend, {"layout.policy=fsdp"}, "layout.reshard_after_forward=false"},
          {backend, kData, "layout.schedule=zero_bubble"},
          {backend, kData, "layout.reshard_after_forward=false"},
          {backend, {}, "layout.prefetch=3"},
          {backend, {}, "layout.bucket_bytes=1"},
          {backend, {}, "layout.max_replicated_bytes=1"},
          {backend, {}, "layout.collectives=fast"},
          {backend, {}, "layout.offload_blocks=[A]"}};
}

// A row for each kind of line: a table has one of each for every family.
std::vector<Row> ignored_by_models(const std::string& backend) {
  const Settings letter = {"model.pattern=AD", "model.letters.D.family=E", "model.letters.D.feed_forward.experts=0",
                           "train.recompute.D=none"};
  return {{backend, {"model.pattern=AE"}, "model.mamba.state=32"},
          {backend, {"model.pattern=AE"}, "train.recompute.M=full"},
          {backend, letter, "model.feed_forward.experts=4"},
          {backend, letter, "train.recompute.E=full"},
          {backend, {}, "lora.alpha=8"}};
}

std::vector<Row> ignored_by_cpu() {
  return {{"cpu", {}, "xla.placement=xla"}, {"cpu", kData, "hardware.target=v6e:2x2"}};
}

std::vector<Row> ignored_by_cuda() {
  return {{"cuda", {}, "xla.placement=xla"},
          {"cuda", kData, "train.threads=3"},
          {"cuda", kData, "layout.collectives=fast"}};
}

// Without an effect on either placement.
std::vector<Row> ignored_by_xla() {
  std::vector<Row> rows;
  for (const std::string placement : {"xla.placement=megacpp", "xla.placement=xla"}) {
    const Settings data = {placement, "layout.data_parallel=2"};
    const Settings zero3 = {placement, "layout.data_parallel=2", "layout.zero=3"};
    const std::vector<Row> more = {{"xla", zero3, "layout.prefetch=3"},      {"xla", zero3, "layout.bucket_bytes=1"},
                                   {"xla", zero3, "layout.policy=fsdp"},     {"xla", data, "layout.policy=megatron"},
                                   {"xla", data, "train.threads=3"},         {"xla", data, "train.wait_limit=7"},
                                   {"xla", data, "xla.attention=blocked"},   {"xla", data, "hardware.target=v6e:2x2"},
                                   {"xla", data, "layout.collectives=fast"}, {"xla", data, "xla.loops=off"}};
    rows.insert(rows.end(), more.begin(), more.end());
  }
  rows.push_back({"xla", {"xla.placement=xla", "xla.plugin=cuda", "layout.data_parallel=2"}, "xla.attention=blocked"});
  return rows;
}

void expect_ignored(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.backend + ", " + row.with);
    EXPECT_TRUE(is_reported(row));
    EXPECT_FALSE(changes_programs(row));
  }
}

void expect_effective(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.backend + ", " + row.with);
    EXPECT_FALSE(is_reported(row));
    EXPECT_TRUE(changes_programs(row));
  }
}

void expect_rows_for(const std::vector<recipe::IgnoredKey>& table, const std::vector<Row>& rows) {
  for (const recipe::IgnoredKey& line : table)
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Row& row) { return key_of(row).starts_with(line.key); }))
        << "no row shows that " << line.key << " has no effect";
}

TEST(IgnoredKeysTest, EveryLineOfATableHasARow) {
  expect_rows_for(plan::unused_layout_keys(), ignored_by_layouts("cpu"));
  expect_rows_for(runtime::backend_named("cpu").ignores, ignored_by_cpu());
  expect_rows_for(runtime::backend_named("xla").ignores, ignored_by_xla());
  expect_rows_for(runtime::backend_named("cuda").ignores, ignored_by_cuda());
}

TEST(IgnoredKeysTest, ReportedKeysChangeNoProgramOfTheCpuBackend) {
  expect_ignored(ignored_by_layouts("cpu"));
  expect_ignored(ignored_by_models("cpu"));
  expect_ignored({{"cpu", kStages, "layout.zero=2"}});
  expect_ignored(ignored_by_cpu());
}

TEST(IgnoredKeysTest, TheSameKeysChangeProgramsWhereTheyAreNotReported) {
  expect_effective({{"cpu", kTensor, "layout.sequence_parallel=false"},
                    {"cpu", kTensor, "layout.expert_tensor_parallel=1"},
                    {"cpu", kExperts, "layout.dispatcher=allgather"},
                    {"cpu", kContext, "layout.context_attention=alltoall"},
                    {"cpu", kContext, "layout.load_balance=false"},
                    {"cpu", kStages, "layout.schedule=zero_bubble"},
                    {"cpu", kZero3, "layout.reshard_after_forward=false"},
                    {"cpu", kData, "layout.zero=3"},
                    {"cpu", kContext, "layout.zero=3"},
                    {"cpu", kTensor, "layout.zero=3"},
                    {"cpu", {"layout.tensor_parallel=2", "model.pattern=AM"}, "layout.zero=3"},
                    {"cpu", {}, "model.mamba.state=32"},
                    {"cpu", {}, "train.recompute.M=full"},
                    {"cpu", {"lora.rank=2"}, "lora.alpha=8"},
                    {"cpu", kZero3, "layout.prefetch=0"},
                    {"cpu", kData, "layout.bucket_bytes=1"},
                    {"cpu", kData, "layout.policy=fsdp"},
                    {"cpu", {}, "train.threads=64"}});
}

TEST(IgnoredKeysTest, ReportedKeysChangeNoProgramOfTheCudaBackend) {
  expect_ignored(ignored_by_cuda());
  expect_ignored({{"cuda", {"layout.offload=optimizer"}, "layout.offload_blocks=[A]"}});
}

TEST(IgnoredKeysTest, BlocksWhoseActivationsAreOffloadedChangeProgramsOfTheCudaBackend) {
  const Settings deep = {"model.depth=8", "layout.offload=activations"};
  expect_effective(
      {{"cuda", {"model.depth=8"}, "layout.offload=activations"}, {"cuda", deep, "layout.offload_blocks=[A]"}});
}

#ifdef MEGACPP_HAS_PJRT

TEST(IgnoredKeysTest, ReportedKeysChangeNoProgramForXla) {
  expect_ignored(ignored_by_layouts("xla"));
  expect_ignored(ignored_by_xla());
}

TEST(IgnoredKeysTest, WhoPlacesCollectivesLeavesOtherLayoutKeysTheirEffect) {
  for (const std::string placement : {"xla.placement=megacpp", "xla.placement=xla"})
    expect_effective({{"xla", {placement, "layout.data_parallel=2"}, "layout.policy=fsdp"},
                      {"xla", {placement, "layout.expert_parallel=2"}, "layout.dispatcher=allgather"},
                      {"xla", {placement, "layout.context_parallel=2"}, "layout.context_attention=alltoall"},
                      {"xla", {placement, "layout.tensor_parallel=2"}, "layout.sequence_parallel=false"}});
  expect_effective({{"xla", {"xla.plugin=cuda", "train.precision=bf16"}, "xla.attention=blocked"}});
}

#endif

}  // namespace
}  // namespace megacpp::testing_support
