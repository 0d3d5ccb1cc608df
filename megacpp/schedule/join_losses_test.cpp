// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/join_losses.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kJoinInputs = R"(graph "g" {
  %0 = input() {dtype="f32", name="logits", shape=[2,4]} : f32[2,4] #batch
  %1 = input() {dtype="i32", name="labels", shape=[2]} : i32[2] #batch
  %2 = input() {dtype="f32", name="dnll", shape=[2]} : f32[2] #batch
)";

Target target_with_joined(bool runs_joined) {
  return {.name = "test",
          .runs =
              [runs_joined](std::string_view, const ops::NodeView&) {
                return runs_joined ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string with_join_inputs(const std::string& rest) { return kJoinInputs + rest + "}\n"; }

std::string losses_joined(const std::string& rest, bool runs_joined = true) {
  return ir::print(join_losses(ir::parse(with_join_inputs(rest)), target_with_joined(runs_joined)));
}

constexpr const char* kLossAndGrad =
    "  %3, %4 = cross_entropy(%0, %1) : f32[2], f32[2] @loss\n"
    "  %5 = exp(%3) : f32[2]\n"
    "  %6 = neg(%2) : f32[2]\n"
    "  %7 = cross_entropy_grad(%0, %1, %4, %6, %2) {dtype=\"bf16\"} : bf16[2,4] @loss\n"
    "  output \"read\" = %5\n  output \"dlogits\" = %7\n  output \"lse\" = %4\n";

TEST(JoinLossesTest, ALossIsMadeWithItsGradientAndItsReadersWait) {
  EXPECT_EQ(losses_joined(kLossAndGrad),
            with_join_inputs("  %3 = neg(%2) : f32[2]\n"
                             "  %4, %5, %6 = cross_entropy_with_grad(%0, %1, %3, %2) {dtype=\"bf16\"} : bf16[2,4], "
                             "f32[2], f32[2] @loss\n"
                             "  %7 = exp(%5) : f32[2]\n"
                             "  output \"read\" = %7\n  output \"dlogits\" = %4\n  output \"lse\" = %6\n"));
}

TEST(JoinLossesTest, WhatTheTargetWouldNotRunStays) {
  EXPECT_EQ(losses_joined(kLossAndGrad, false), with_join_inputs(kLossAndGrad));
}

TEST(JoinLossesTest, AGradientThatDependsOnTheLossStays) {
  const std::string rest =
      "  %3, %4 = cross_entropy(%0, %1) : f32[2], f32[2]\n"
      "  %5 = exp(%4) : f32[2]\n"
      "  %6 = cross_entropy_grad(%0, %1, %4, %2, %5) : f32[2,4]\n"
      "  output \"loss\" = %3\n  output \"dlogits\" = %6\n";
  EXPECT_EQ(losses_joined(rest), with_join_inputs(rest));
}

TEST(JoinLossesTest, AGradientOfOtherLogitsStays) {
  const std::string rest =
      "  %3, %4 = cross_entropy(%0, %1) : f32[2], f32[2]\n"
      "  %5 = exp(%0) : f32[2,4]\n"
      "  %6 = cross_entropy_grad(%5, %1, %4, %2, %2) : f32[2,4]\n"
      "  output \"loss\" = %3\n  output \"dlogits\" = %6\n";
  EXPECT_EQ(losses_joined(rest), with_join_inputs(rest));
}

}  // namespace
}  // namespace megacpp::schedule
