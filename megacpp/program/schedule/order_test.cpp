// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/order.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::schedule {
namespace {

constexpr const char* kFans = R"(graph "fans" {
  %0 = input() {dtype="f32", name="x", shape=[]} : f32[] #batch
  %1 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %2 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %3 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %4 = reduce(%1) {dims=[0], kind="sum"} : f32[]
  %5 = reduce(%2) {dims=[0], kind="sum"} : f32[]
  %6 = reduce(%3) {dims=[0], kind="sum"} : f32[]
  %7 = add(%4, %5) : f32[]
  %8 = add(%7, %6) : f32[]
  output "y" = %8
}
)";

TEST(OrderTest, LargeValuesAreFreedBeforeTheNextIsMade) {
  const ir::Graph graph = ir::parse(kFans);
  const ir::Graph ordered = order_for_low_peak(graph);
  EXPECT_EQ(ir::print(ordered), R"(graph "fans" {
  %0 = input() {dtype="f32", name="x", shape=[]} : f32[] #batch
  %1 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %2 = reduce(%1) {dims=[0], kind="sum"} : f32[]
  %3 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %4 = reduce(%3) {dims=[0], kind="sum"} : f32[]
  %5 = add(%2, %4) : f32[]
  %6 = broadcast(%0) {dims=[], shape=[1000]} : f32[1000]
  %7 = reduce(%6) {dims=[0], kind="sum"} : f32[]
  %8 = add(%5, %7) : f32[]
  output "y" = %8
}
)");
  EXPECT_EQ(simulated_peak(graph), 3 * 4000 + 4);
  EXPECT_EQ(simulated_peak(ordered), 4000 + 2 * 4);
}

TEST(OrderTest, OrderThatIsAlreadyGoodStaysAsWritten) {
  const std::string good = ir::print(order_for_low_peak(ir::parse(kFans)));
  EXPECT_EQ(ir::print(order_for_low_peak(ir::parse(good))), good);
}

TEST(OrderTest, OutputsStayAliveToTheEnd) {
  const ir::Graph graph = ir::parse(R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[10]} : f32[10] #batch
  %1 = exp(%0) : f32[10]
  %2 = neg(%1) : f32[10]
  %3 = tanh(%2) : f32[10]
  output "a" = %1
  output "b" = %3
}
)");
  EXPECT_EQ(simulated_peak(graph), 3 * 40);
}

// Gradients are summed where they are: made late, each would keep what it is made of alive until then.
TEST(OrderTest, GradientsAreSummedAsSoonAsTheyCanBe) {
  const std::string text = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[10]} : f32[10] #batch
  %1 = input() {dtype="f32", name="grad.a", shape=[1000]} : f32[1000] #gradient
  %2 = input() {dtype="f32", name="grad.b", shape=[1000]} : f32[1000] #gradient
  %3 = broadcast(%0) {dims=[1], shape=[100,10]} : f32[100,10]
  %4 = reshape(%3) {shape=[1000]} : f32[1000]
  %5 = add(%1, %4) : f32[1000]
  %6 = exp(%0) : f32[10]
  %7 = broadcast(%6) {dims=[1], shape=[100,10]} : f32[100,10]
  %8 = reshape(%7) {shape=[1000]} : f32[1000]
  %9 = add(%2, %8) : f32[1000]
  output "grad.a" = %5 donates "grad.a"
  output "grad.b" = %9 donates "grad.b"
}
)";
  EXPECT_EQ(simulated_peak(ir::parse(text)), 2 * 4000);
  EXPECT_EQ(ir::print(order_for_low_peak(ir::parse(text))), text);
}

}  // namespace
}  // namespace megacpp::schedule
