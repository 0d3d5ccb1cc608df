// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/collective_traffic.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

// A backward pass: the cotangent %3 is summed over `model` and only gradients come of it; the gradient of w is added to
// state, that of v replaces it after a cut, that of u is made of what has been summed.
constexpr const char* kBackward = R"(graph "backward" {
  %0 = input() {dtype="f32", name="dy", shape=[4,4]} : f32[4,4] #activation
  %1 = input() {dtype="f32", name="grad.w", shape=[4,4]} : f32[4,4] #gradient
  %2 = input() {dtype="f32", name="grad.v", shape=[3,4]} : f32[3,4] #gradient
  %3 = all_reduce(%0) {axes="model", kind="sum", parts=2} : f32[4,4] #collective
  %4 = dot(%3, %3) {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[4,4]
  %5 = all_reduce(%4) {axes="data", kind="sum", parts=2} : f32[4,4] #collective
  %6 = add(%1, %5) : f32[4,4]
  %7 = neg(%4) : f32[4,4]
  %8 = all_reduce(%7) {axes="data", kind="sum", parts=2} : f32[4,4] #collective
  %9 = slice(%8) {dim=0, size=3, start=0} : f32[3,4]
  %10 = input() {dtype="f32", name="grad.u", shape=[4]} : f32[4] #gradient
  %11 = all_reduce(%7) {axes="data", kind="sum", parts=2} : f32[4,4] #collective
  %12 = reduce(%11) {dims=[0], kind="sum"} : f32[4]
  %13 = add(%10, %12) : f32[4]
  output "grad.w" = %6 donates "grad.w"
  output "grad.v" = %9 donates "grad.v"
  output "grad.u" = %13 donates "grad.u"
}
)";

TEST(CollectiveTrafficTest, CotangentsAreNoGradients) {
  const TrafficMap map = map_traffic(ir::parse(kBackward));
  EXPECT_EQ(map.traffic[3], Traffic::other);
  EXPECT_EQ(map.traffic[5], Traffic::gradient);
  EXPECT_EQ(map.traffic[8], Traffic::gradient);
  EXPECT_EQ(map.traffic[11], Traffic::other);
  EXPECT_TRUE(map.only_replaces_state[3]) << "yet nothing but state comes of it";
}

TEST(CollectiveTrafficTest, GradientsAreOneAdditionOrMovesAwayFromState) {
  const std::vector<std::string> becomes = becomes_gradient(ir::parse(kBackward));
  std::vector<uint32_t> found;
  for (uint32_t v = 0; v < becomes.size(); ++v)
    if (!becomes[v].empty()) found.push_back(v);
  // The states themselves; sums and what is added; what the cut is made from, back to where it is computed.
  EXPECT_EQ(found, (std::vector<uint32_t>{1, 4, 5, 6, 7, 8, 9, 10, 12, 13}));
}

TEST(CollectiveTrafficTest, ReductionsOfTheUpdateAreMadeOfGradientsAlone) {
  const TrafficMap map = map_traffic(ir::parse(R"(graph "update" {
  %0 = input() {dtype="f32", name="grad.w", shape=[4]} : f32[4] #gradient
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] #weight
  %2 = all_reduce(%0) {axes="data", kind="sum", parts=2} : f32[4] #collective
  %3 = sub(%1, %2) : f32[4]
  output "w" = %3 donates "w"
}
)"));
  EXPECT_EQ(map.traffic[2], Traffic::gradient);
}

}  // namespace
}  // namespace megacpp::schedule
