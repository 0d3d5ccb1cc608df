// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/graph.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/make_node.h"

namespace megacpp::ir {
namespace {

using testing_support::make_node;

const TensorType kRow{DType::f32, {3}};

NodeId append_input(Graph& graph, std::string name) {
  return graph.append(make_node("input", {}, {{"name", std::move(name)}}), {kRow});
}

TEST(GraphTest, AppendNumbersResultsInOrder) {
  Graph graph("g");
  const NodeId x = append_input(graph, "x");
  const NodeId split = graph.append(make_node("split", graph.node(x).results), {kRow, {DType::i32, {}}});
  EXPECT_EQ(graph.node(split).results, (std::vector<ValueId>{{1}, {2}}));
  EXPECT_EQ(graph.value({2}).producer, split);
  EXPECT_EQ(graph.value({2}).result, 1u);
  EXPECT_EQ(graph.type({2}), (TensorType{DType::i32, {}}));
  EXPECT_EQ(graph.producer({0}).op, "input");
  EXPECT_EQ(graph.operand_types(graph.node(split)), (std::vector<TensorType>{kRow}));
  EXPECT_EQ(graph.result_types(graph.node(split)), (std::vector<TensorType>{kRow, {DType::i32, {}}}));
}

TEST(GraphTest, OperandsMustExistAlready) {
  Graph graph;
  EXPECT_THROW(graph.append(make_node("neg", {ValueId{0}}), {kRow}), base::Error);
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_THROW(graph.add_output({.name = "y", .value = {0}}), base::Error);
}

TEST(GraphTest, InputsAndOutputsAreFoundByName) {
  Graph graph;
  const NodeId x = append_input(graph, "x");
  graph.append(make_node("iota"), {kRow});
  const NodeId y = append_input(graph, "y");
  graph.add_output({.name = "z", .value = {1}, .donated = "x"});
  EXPECT_EQ(graph.inputs(), (std::vector<NodeId>{x, y}));
  EXPECT_EQ(graph.find_input("y"), ValueId{2});
  EXPECT_EQ(graph.find_input("z"), std::nullopt);
  EXPECT_EQ(graph.find_output("z"), ValueId{1});
  EXPECT_EQ(graph.find_output("x"), std::nullopt);
}

TEST(GraphTest, UsersListEachReaderOnce) {
  Graph graph;
  append_input(graph, "x");
  const NodeId square = graph.append(make_node("mul", {{0}, {0}}), {kRow});
  const NodeId sum = graph.append(make_node("add", {{0}, {1}}), {kRow});
  const auto users = graph.users();
  ASSERT_EQ(users.size(), 3u);
  EXPECT_EQ(users[0], (std::vector<NodeId>{square, sum}));
  EXPECT_EQ(users[1], (std::vector<NodeId>{sum}));
  EXPECT_TRUE(users[2].empty());
}

TEST(GraphTest, RoleNamesRoundTrip) {
  for (const Role role : {Role::weight, Role::weight_copy, Role::gradient, Role::optimizer, Role::batch,
                          Role::activation, Role::temporary, Role::collective})
    EXPECT_EQ(parse_role(role_name(role)), role);
  EXPECT_EQ(parse_role("hero"), std::nullopt);
}

TEST(GraphTest, ScopeHasBlockAndFamily) {
  EXPECT_EQ(scope_block("block07.M.ssd"), "block07");
  EXPECT_EQ(scope_letter("block07.M.ssd"), "M");
  EXPECT_EQ(scope_letter("update.norm"), "");
  EXPECT_EQ(scope_letter("block07.M"), "M");
  EXPECT_EQ(scope_block("embed"), "embed");
  EXPECT_EQ(scope_letter("embed"), "");
}

TEST(GraphTest, TypesKnowTheirSizes) {
  const TensorType type{DType::bf16, {4, 3, 2}};
  EXPECT_EQ(type.elements(), 24);
  EXPECT_EQ(type.bytes(), 48);
  EXPECT_EQ(type.dim(-1), 2);
  EXPECT_EQ(type.dim(0), 4);
  EXPECT_EQ(strides_of(type.shape), (Shape{6, 2, 1}));
  EXPECT_EQ(to_string(type), "bf16[4,3,2]");
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({5, 0}), 0);
}

}  // namespace
}  // namespace megacpp::ir
