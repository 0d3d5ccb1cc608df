// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/divide_graph.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/errors.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::partition {
namespace {

constexpr const char* kThreeParts = R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = input() {dtype="f32", name="w", shape=[4]} : f32[4] #weight
  %2 = input() {dtype="f32", name="unread", shape=[]} : f32[] #weight
  %3 = constant() {dtype="f32", shape=[4], value=2.0} : f32[4]
  %4 = exp(%0) : f32[4] @early
  %5 = add(%4, %3) : f32[4]
  %6 = add(%5, %1) : f32[4]
  %7 = mul(%6, %3) : f32[4]
  %8 = mul(%7, %4) : f32[4]
  %9 = mul(%8, %1) : f32[4]
  output "middle" = %6
  output "w" = %9 donates "w"
}
)";

Division three_parts(HandOver hand_over) {
  return {.parts = {"a", "b", "c"},
          .part_of = {0, 0, 1, 0, 0, 0, 1, 1, 2, 2},
          .is_repeated = {false, false, false, true, false, false, false, false, false, false},
          .prefix = "carry.",
          .hand_over = hand_over};
}

std::string printed_parts(const Divided& divided) {
  std::string text;
  for (const Part& part : divided.parts) text += ir::print(part.graph);
  return text;
}

TEST(DivideGraphTest, RelayedValuesPassThroughPartsThatDoNotReadThem) {
  EXPECT_EQ(printed_parts(divide_graph(ir::parse(kThreeParts), three_parts(HandOver::relayed))), R"(graph "g.a" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = constant() {dtype="f32", shape=[4], value=2.0} : f32[4]
  %2 = exp(%0) : f32[4] @early
  %3 = add(%2, %1) : f32[4]
  output "carry.0" = %2
  output "carry.1" = %3
}
graph "g.b" {
  %0 = input() {dtype="f32", name="w", shape=[4]} : f32[4] #weight
  %1 = input() {dtype="f32", name="unread", shape=[]} : f32[] #weight
  %2 = constant() {dtype="f32", shape=[4], value=2.0} : f32[4]
  %3 = input() {dtype="f32", name="carry.0", shape=[4]} : f32[4] @early #activation
  %4 = input() {dtype="f32", name="carry.1", shape=[4]} : f32[4] #activation
  %5 = add(%4, %0) : f32[4]
  %6 = mul(%5, %2) : f32[4]
  output "middle" = %5
  output "carry.0" = %3
  output "carry.2" = %6
}
graph "g.c" {
  %0 = input() {dtype="f32", name="w", shape=[4]} : f32[4] #weight
  %1 = input() {dtype="f32", name="carry.0", shape=[4]} : f32[4] @early #activation
  %2 = input() {dtype="f32", name="carry.2", shape=[4]} : f32[4] #activation
  %3 = mul(%2, %1) : f32[4]
  %4 = mul(%3, %0) : f32[4]
  output "w" = %4 donates "w"
}
)");
}

TEST(DivideGraphTest, DirectValuesEnterOnlyWhereTheyAreRead) {
  const Divided divided = divide_graph(ir::parse(kThreeParts), three_parts(HandOver::direct));
  EXPECT_FALSE(divided.parts[1].graph.find_input("carry.0"));
  EXPECT_FALSE(divided.parts[1].graph.find_output("carry.0"));
  EXPECT_TRUE(divided.parts[2].graph.find_input("carry.0"));
  ASSERT_EQ(divided.crossings.size(), 3U);
  EXPECT_EQ(divided.crossings[0].made_in, 0U);
  EXPECT_EQ(divided.crossings[0].last_read_in, 2U);
  EXPECT_EQ(divided.crossings[1].last_read_in, 1U);
}

TEST(DivideGraphTest, ImpossibleDivisionsAreCaught) {
  const ir::Graph graph = ir::parse(kThreeParts);
  Division backwards = three_parts(HandOver::direct);
  backwards.part_of[4] = 2;
  EXPECT_EQ(testing_support::error_of([&] { divide_graph(graph, backwards); }).code(), base::Code::E9001);
  ir::Graph replaced_early = graph;
  replaced_early.add_output({.name = "x", .value = ir::ValueId{4}, .donated = "x"});
  Division late_reader = three_parts(HandOver::direct);
  late_reader.is_repeated[4] = true;  // reads x again in part c
  EXPECT_EQ(testing_support::error_of([&] { divide_graph(replaced_early, late_reader); }).code(), base::Code::E9001);
}

ir::Graph without_donations(const ir::Graph& source) {
  ir::Graph graph(source.name());
  for (const ir::Node& node : source.nodes()) graph.append(node, source.result_types(node));
  for (ir::Output output : source.outputs()) {
    output.donated.clear();
    graph.add_output(std::move(output));
  }
  return graph;
}

TEST(DivideGraphTest, PartsOfRandomGraphsComputeWhatTheGraphComputes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph graph = without_donations(testing_support::random_graph(seed, 5 + static_cast<int>(seed % 30)));
    const base::Philox random(seed, "division");
    const size_t nodes = graph.nodes().size(), parts = 2 + seed % 4;
    Division division{.parts = {}, .part_of = {}, .is_repeated = {}, .prefix = "carry."};
    for (size_t part = 0; part < parts; ++part) division.parts.push_back(std::to_string(part));
    for (size_t n = 0; n < nodes; ++n) {
      division.part_of.push_back(n * parts / nodes);
      division.is_repeated.push_back(random.word(n) % 4 == 0);
    }
    division.hand_over = seed % 2 == 0 ? HandOver::relayed : HandOver::direct;
    std::map<std::string, ops::Tensor> values = testing_support::random_inputs(graph, "divide");
    const auto wanted = ops::evaluate(graph, values);
    for (const Part& part : divide_graph(graph, division).parts) {
      ops::verify(part.graph, ops::Form::built);
      for (auto& [name, tensor] : ops::evaluate(part.graph, values)) values[name] = std::move(tensor);
    }
    for (const auto& [name, tensor] : wanted)
      ASSERT_TRUE(testing_support::is_close(values.at(name), tensor, 0)) << name;
  }
}

TEST(DivideGraphTest, MixesOfWeightsAndBatchDependOnMoreThanInputs) {
  const ir::Graph graph = ir::parse(R"(graph "g" {
  %0 = input() {dtype="f32", name="w", shape=[4,2]} : f32[4,2] #weight
  %1 = input() {dtype="i32", name="ids", shape=[3]} : i32[3] #batch
  %2 = input() {dtype="f32", name="carry.0", shape=[3]} : f32[3] #activation
  %3 = convert(%0) {dtype="bf16"} : bf16[4,2]
  %4 = convert(%1) {dtype="f32"} : f32[3]
  %5 = iota() {dim=0, dtype="f32", shape=[3]} : f32[3]
  %6 = add(%4, %5) : f32[3]
  %7 = take(%0, %1) : f32[3,2]
  %8 = add(%2, %5) : f32[3]
}
)");
  EXPECT_EQ(depends_on_inputs_alone(graph),
            (std::vector<bool>{true, true, false, true, true, true, true, false, false}));
  EXPECT_EQ(depends_on_weights_alone(graph),
            (std::vector<bool>{true, false, false, true, false, false, false, false, false}));
}

}  // namespace
}  // namespace megacpp::partition
