// SPDX-License-Identifier: Apache-2.0
// Layouts over 2, 4 and 8 processes of 1 to 4 chips each, on one and several hosts, joined by sockets: with exact sums
// the losses, norms, parameters and moments of one process to the bit, with fast ones those of one chip within the
// tolerances of layouts; and every chip uses exactly the memory that was planned. MEGACPP_ALL_ROWS=1 takes the rows of
// all tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/plan/plan.h"
#include "tests/parity/layout_rows.h"
#include "tests/parity/layout_tables.h"
#include "tests/parity/training_comparison.h"
#include "tests/support/process_fleet.h"

namespace megacpp::testing_support {
namespace {

constexpr int64_t kMostChips = 4;  // of a process

runtime::Backend cpu_over(const collectives::Transport& transport) {
  runtime::Backend backend = runtime::backend_named("cpu");
  backend.target = [target = backend.target, transport](const recipe::RunRequest& request, runtime::TargetMesh mesh) {
    mesh.transport = transport;
    return target(request, mesh);
  };
  backend.load = [load = backend.load, transport](const recipe::RunRequest& request, const compile::Compiled& compiled,
                                                  runtime::LoadOptions options) {
    options.transport = transport;
    return load(request, compiled, options);
  };
  return backend;
}

// Two processes are on one host, four on two, eight each on its own; so are those that send sums.
runtime::Backend cpu_over(int64_t processes, collectives::Sums sums) {
  const bool is_apart = processes == 8 || sums == collectives::Sums::fast;
  const Hosts hosts = is_apart ? Hosts::each_own : processes == 4 ? Hosts::two : Hosts::one;
  return cpu_over(fleet_transport({.name = "processes", .processes = processes, .sums = sums, .hosts = hosts}));
}

int64_t chips_of(const recipe::Recipe& recipe) { return plan::make_plan(recipe).chips; }

/// Those that give each of them 1 to kMostChips chips.
std::vector<int64_t> process_counts(int64_t chips) {
  std::vector<int64_t> counts;
  for (const int64_t processes : {2, 4, 8})
    if (processes <= chips && (chips + processes - 1) / processes <= kMostChips) counts.push_back(processes);
  return counts;
}

class ProcessLayoutTest : public testing::TestWithParam<LayoutRow> {};

TEST_P(ProcessLayoutTest, ExactSumsTrainToTheBitsOfOneProcess) {
  constexpr Tolerances kSameBits{.losses = 0, .norms = 0, .dropped = 0, .parameters = 0, .moments = 0};
  const recipe::Recipe recipe = recipe_of(GetParam(), 1);
  for (const int64_t processes : process_counts(chips_of(recipe)))
    EXPECT_EQ(compare_with_one_process(recipe, cpu_over(processes, collectives::Sums::exact), kSameBits), "")
        << processes << " processes";
}

TEST_P(ProcessLayoutTest, FastSumsTrainAsOneChip) {
  for (const int64_t seed : {1, 2, 3}) {
    const recipe::Recipe recipe = recipe_of(GetParam(), seed);
    const Comparison comparison = compare_with_one_chip(recipe, cpu_over(2, collectives::Sums::fast));
    if (!comparison.on_edge) {
      EXPECT_EQ(comparison.problems, "") << "with seed " << seed;
      return;
    }
    std::cout << "seed " << seed << " stands on an edge:\n" << comparison.problems;
  }
  FAIL() << "every seed stands on an edge";
}

bool wants_all_rows() { return std::getenv("MEGACPP_ALL_ROWS") != nullptr; }

// Each kind of collective, between chips of a process and of several.
const std::vector<std::string> kSomeLayouts = {
    "data_parallel=8 train.batch=8 train.micro_steps=1",
    "data_parallel=4 zero=1 optimizer.name=muon optimizer.eps=1e-6",
    "data_parallel=4 tensor_parallel=2 zero=3 reshard_after_forward=2",
    "tensor_parallel=4 sequence_parallel=false model.vocab=259",
    "data_parallel=2 context_parallel=2 tensor_parallel=2 zero=3",
    "context_parallel=2 tensor_parallel=2 context_attention=alltoall model.attention.kv_heads=4",
};

INSTANTIATE_TEST_SUITE_P(Nam56r, ProcessLayoutTest,
                         testing::ValuesIn(narrow_rows_of("nam56r-tiny", kFewBlocks56r,
                                                          wants_all_rows() ? kCommonLayouts : kSomeLayouts)),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rStages, ProcessLayoutTest,
                         testing::ValuesIn(narrow_rows_of(
                             "nam56r-tiny", "",
                             wants_all_rows()
                                 ? kStages
                                 : std::vector<std::string>{"pipeline_parallel=2 data_parallel=2 tensor_parallel=2"})),
                         row_name);
INSTANTIATE_TEST_SUITE_P(Nam56rExperts, ProcessLayoutTest,
                         testing::ValuesIn(narrow_rows_of(
                             "nam56r-tiny", kFewBlocks56r,
                             wants_all_rows()
                                 ? kExpertLayouts
                                 : std::vector<std::string>{"data_parallel=2 expert_parallel=4 zero=3 train.batch=8"})),
                         row_name);

}  // namespace
}  // namespace megacpp::testing_support
