// SPDX-License-Identifier: Apache-2.0
// What every pass promises, on random graphs: the results do not change, the graph stays legal, the same input gives
// the same text.
#include <gtest/gtest.h>

#include <functional>

#include "megacpp/ir/text.h"
#include "megacpp/ops/verify.h"
#include "megacpp/schedule/decompose.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/remove_dead.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::schedule {
namespace {

using Pass = std::function<ir::Graph(const ir::Graph&)>;

constexpr uint64_t kGraphs = 150;

void expect_results_kept(const Pass& pass, ops::Stage leaves) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph before = testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60));
    ops::verify(before, ops::Stage::built);
    const ir::Graph after = pass(before);
    ASSERT_NO_THROW(ops::verify(after, leaves)) << ir::print(before) << ir::print(after);
    EXPECT_EQ(ir::print(after), ir::print(pass(before)));
    const auto inputs = testing_support::random_inputs(before, "seed" + std::to_string(seed));
    const auto wanted = ops::evaluate(before, inputs, ops::Rounding::none);
    const auto got = ops::evaluate(after, inputs, ops::Rounding::none);
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [name, tensor] : wanted)
      ASSERT_TRUE(testing_support::is_close(got.at(name), tensor, 1e-12)) << name << "\n"
                                                                          << ir::print(before) << ir::print(after);
  }
}

TEST(PassesTest, RemoveDeadKeepsResults) { expect_results_kept(remove_dead, ops::Stage::built); }

TEST(PassesTest, FoldAccumulationKeepsResults) { expect_results_kept(fold_accumulation, ops::Stage::built); }

TEST(PassesTest, FuseKeepsResults) { expect_results_kept(fuse, ops::Stage::fused); }

TEST(PassesTest, OrderKeepsResults) { expect_results_kept(order_for_low_peak, ops::Stage::built); }

TEST(PassesTest, AllTogetherKeepResults) {
  expect_results_kept([](const ir::Graph& g) { return order_for_low_peak(fuse(fold_accumulation(remove_dead(g)))); },
                      ops::Stage::fused);
}

TEST(PassesTest, OrderNeverRaisesThePeak) {
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const ir::Graph graph = testing_support::random_graph(seed, 40);
    EXPECT_LE(simulated_peak(order_for_low_peak(graph)), simulated_peak(graph));
  }
}

}  // namespace
}  // namespace megacpp::schedule
