// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/buffers.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::memory {
namespace {

Buffers assigned(const std::string& body) {
  const schedule::Target target{
      .name = "test", .runs = {}, .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }};
  return assign_buffers(ir::parse("graph \"g\" {\n" + body + "}\n"), target);
}

const std::string kInput = "  %0 = input() {dtype=\"f32\", name=\"x\", shape=[2,3]} : f32[2,3] #batch\n";

TEST(BuffersTest, ReshapeLivesInItsOperand) {
  const Buffers buffers = assigned(kInput + R"(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = reshape(%1) {shape=[6]} : f32[6]
  %3 = cumsum(%0) {dim=0} : f32[2,3]
  output "y" = %2
  output "z" = %3
)");
  EXPECT_EQ(buffers.buffer_of[2], buffers.buffer_of[1]);
  EXPECT_EQ(buffers.buffers[static_cast<size_t>(buffers.buffer_of[1])].last, 4U)
      << "the view keeps it alive to the end";
  EXPECT_NE(buffers.buffer_of[3], buffers.buffer_of[0]) << "state is only replaced by what it is donated to";
}

TEST(BuffersTest, NodesThatAreAlikeAskForTheirWorkspaceOnce) {
  const auto questions = [](int64_t depth) {
    ir::Graph graph("g");
    ops::Builder builder(graph);
    ir::ValueId value = builder.input("x", {ir::DType::f32, {2, 3}}, ir::Role::batch);
    for (int64_t block = 0; block < depth; ++block) {
      builder.set_scope("block" + std::to_string(block) + ".A");
      value = builder.one("cumsum", {value}, {{"dim", int64_t{0}}});
      value = builder.one("cumsum", {value}, {{"dim", int64_t{1}}});
    }
    value = builder.one("reshape", {value}, {{"shape", ir::Shape{6}}});
    graph.add_output({.name = "y", .value = builder.one("cumsum", {value}, {{"dim", int64_t{0}}})});
    int64_t asked = 0;
    const auto workspace_bytes = [&asked](std::string_view, const ops::NodeView& view) {
      ++asked;
      return 100 * view.operands[0].rank() + view.attrs.integer("dim");
    };
    const schedule::Target target{.name = "test", .runs = {}, .workspace_bytes = workspace_bytes};
    const Buffers buffers = assign_buffers(graph, target);
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      const ir::Node& node = graph.nodes()[n];
      if (node.op != "cumsum") continue;
      EXPECT_GE(buffers.workspace_of[n], 0) << n;
      EXPECT_EQ(buffers.buffers[static_cast<size_t>(buffers.workspace_of[n])].bytes,
                100 * graph.type(node.operands[0]).rank() + node.attrs.integer("dim"))
          << n;
    }
    return asked;
  };
  EXPECT_EQ(questions(2), 3) << "two dimensions, two types";
  EXPECT_EQ(questions(200), 3) << "not by depth";
}

// Two clusters, a view that is no work between them, a product behind them and one more cluster.
TEST(BuffersTest, WhereLaunchesAreJoinedSmallBuffersLastAsLongAsTheirRunOfClusters) {
  const ir::Graph graph =
      ir::parse("graph \"g\" {\n" + kInput +
                R"ir(  %1 = fused(%0) {dtypes="f32", program="in(0,1) sum(%0;2)", shape=[2,3]} : f32[]
  %2 = reshape(%0) {shape=[6]} : f32[6]
  %3 = fused(%2) {dtypes="f32", program="in(0) sum(%0;1)", shape=[6]} : f32[]
  %4 = fused(%1, %3) {dtypes="f32", program="in() in() add(%0,%1) out(%2)", shape=[]} : f32[]
  %5 = cumsum(%0) {dim=0} : f32[2,3]
  %6 = fused(%5, %4) {dtypes="f32", program="in(0,1) in() mul(%0,%1) out(%2)", shape=[2,3]} : f32[2,3]
  output "y" = %6
}
)ir");
  schedule::Target target{.name = "test", .runs = {}, .workspace_bytes = [](std::string_view op, const ops::NodeView&) {
                            return op == "fused" ? int64_t{4096} : int64_t{1} << 20;
                          }};
  const auto lasts_of = [&] {
    const Buffers buffers = assign_buffers(graph, target);
    std::vector<uint32_t> lasts;
    for (const int workspace : buffers.workspace_of)
      if (workspace >= 0) lasts.push_back(buffers.buffers[static_cast<size_t>(workspace)].last);
    return lasts;
  };
  EXPECT_EQ(lasts_of(), (std::vector<uint32_t>{1, 3, 4, 5, 6}));
  target.separate_bytes = 4096;
  EXPECT_EQ(lasts_of(), (std::vector<uint32_t>{4, 4, 4, 5, 6})) << "until the cluster before the product";
  target.separate_bytes = 4095;
  EXPECT_EQ(lasts_of(), (std::vector<uint32_t>{1, 3, 4, 5, 6})) << "larger ones do not";
}

TEST(BuffersTest, AnOperandThatAnotherOutputStoresIsNotTakenOver) {
  const Buffers buffers = assigned(kInput + R"ir(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %3, %4 = fused(%1, %2) {dtypes="f32 bf16", program="in(0,1) in(0,1) mul(%0,%1) convert(%0) out(%2) out(%3)", shape=[3,2]} : f32[3,2], bf16[3,2]
  output "y" = %3
  output "z" = %4
)ir");
  EXPECT_EQ(buffers.buffer_of[3], buffers.buffer_of[2]) << "%1 is stored as it is, %2 is free";
  EXPECT_NE(buffers.buffer_of[4], buffers.buffer_of[1]) << "another dtype";
}

TEST(BuffersTest, FusedResultTakesOverADyingOperandOfItsOwnElements) {
  const Buffers buffers = assigned(kInput + R"ir(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %3 = fused(%1, %2) {dtypes="f32", program="in(0,1) in(0,1) add(%0,%1) out(%2)", shape=[3,2]} : f32[3,2]
  %4 = fused(%3, %2) {dtypes="f32", program="in(0,1) in(0,1) add(%0,%1) out(%2)", shape=[3,2]} : f32[3,2]
  output "y" = %4
)ir");
  EXPECT_EQ(buffers.buffer_of[3], buffers.buffer_of[1]) << "%2 is read again later";
  EXPECT_TRUE(buffers.buffer_of[4] == buffers.buffer_of[3] || buffers.buffer_of[4] == buffers.buffer_of[2]);
}

TEST(BuffersTest, OperandReadTwiceOrBroadcastIsNotTakenOver) {
  const Buffers twice = assigned(kInput + R"ir(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = reshape(%1) {shape=[2,3]} : f32[2,3]
  %3 = reshape(%1) {shape=[6]} : f32[6]
  %4 = reshape(%3) {shape=[2,3]} : f32[2,3]
  %5 = fused(%2, %4) {dtypes="f32", program="in(0,1) in(0,1) add(%0,%1) out(%2)", shape=[2,3]} : f32[2,3]
  output "y" = %5
)ir");
  EXPECT_NE(twice.buffer_of[5], twice.buffer_of[1]);
  const Buffers repeated = assigned(kInput + R"ir(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = reshape(%1) {shape=[6]} : f32[6]
  %3 = fused(%2) {dtypes="f32", program="in(1) out(%0)", shape=[1,6]} : f32[1,6]
  output "y" = %3
)ir");
  EXPECT_NE(repeated.buffer_of[3], repeated.buffer_of[1]);
}

TEST(BuffersTest, WhatIsSentLivesUntilItIsSent) {
  const Buffers buffers = assigned(kInput + R"(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  send(%1) {axes="stage", peer=1, tag=0} #collective
  %3, %4 = all_reduce(%2, %0) {axes="x", kind="sum", parts=2} : f32[3,2], f32[2,3] #collective
  output "y" = %3
  output "z" = %4
)");
  EXPECT_EQ(buffers.buffers[static_cast<size_t>(buffers.buffer_of[1])].last, 3U);
  EXPECT_EQ(buffers.buffer_of[3], buffers.buffer_of[2]) << "the first tensor is reduced in place";
  EXPECT_NE(buffers.buffer_of[4], buffers.buffer_of[0]) << "state is only replaced by what it is donated to";
}

const std::string kTwoMade = R"(  %1 = transpose(%0) {permutation=[1,0]} : f32[3,2]
  %2 = cumsum(%0) {dim=0} : f32[2,3]
)";

TEST(BuffersTest, TensorsOfACollectiveArePlacedSideBySide) {
  const Buffers buffers =
      assigned(kInput + kTwoMade + R"(  %3, %4 = all_gather(%1, %2) {axes="x", dims=[0,0], parts=2} : f32[6,2], f32[4,3]
  %5 = cumsum(%1) {dim=0} : f32[3,2]
  output "y" = %3
  output "z" = %4
  output "w" = %5
)");
  EXPECT_EQ(buffers.buffer_of[1], buffers.buffer_of[2]);
  EXPECT_EQ(buffers.place_in[1], 0);
  EXPECT_EQ(buffers.place_in[2], 64);
  EXPECT_EQ(buffers.buffer_of[3], buffers.buffer_of[4]);
  EXPECT_EQ(buffers.place_in[4], 64);
  const Buffer& operands = buffers.buffers[static_cast<size_t>(buffers.buffer_of[1])];
  EXPECT_EQ(operands.bytes, 64 + 24);
  EXPECT_EQ(operands.first, 1U);
  EXPECT_EQ(operands.last, 4U) << "%1 is read again";
  EXPECT_NE(buffers.buffer_of[5], buffers.buffer_of[1]) << "one of many gives its place to nobody";
}

TEST(BuffersTest, WhatIsReducedTogetherIsReducedInPlace) {
  const Buffers buffers =
      assigned(kInput + kTwoMade +
               R"(  %3, %4 = all_reduce(%1, %2) {axes="x", kind="sum", parts=2} : f32[3,2], f32[2,3] #collective
  output "y" = %3
  output "z" = %4
)");
  for (const size_t i : {1U, 2U}) {
    EXPECT_EQ(buffers.buffer_of[i + 2], buffers.buffer_of[i]);
    EXPECT_EQ(buffers.place_in[i + 2], buffers.place_in[i]);
  }
}

TEST(BuffersTest, NothingIsReducedInPlaceWhileOneOfTheTensorsIsNeeded) {
  const Buffers buffers =
      assigned(kInput + kTwoMade +
               R"(  %3, %4 = all_reduce(%1, %2) {axes="x", kind="sum", parts=2} : f32[3,2], f32[2,3] #collective
  %5 = cumsum(%1) {dim=0} : f32[3,2]
  output "y" = %3
  output "z" = %4
  output "w" = %5
)");
  EXPECT_NE(buffers.buffer_of[3], buffers.buffer_of[1]);
  EXPECT_EQ(buffers.buffer_of[4], buffers.buffer_of[3]) << "results are side by side instead";
  EXPECT_EQ(buffers.place_in[4], 64);
}

TEST(BuffersTest, StateKeepsItsPlaceInACollective) {
  const Buffers buffers =
      assigned(kInput + kTwoMade +
               R"(  %3, %4, %5 = all_reduce(%1, %0, %2) {axes="x", kind="sum", parts=2} : f32[3,2], f32[2,3], f32[2,3]
  output "x" = %4 donates "x"
  output "y" = %3
  output "z" = %5
)");
  EXPECT_EQ(buffers.buffer_of[4], buffers.buffer_of[0]);
  EXPECT_EQ(buffers.buffer_of[1], buffers.buffer_of[2]) << "the others are side by side";
  EXPECT_EQ(buffers.place_in[2], 64);
  EXPECT_EQ(buffers.place_in[5], 64) << "and reduced in place";
}

TEST(BuffersTest, StateIsReplacedInPlaceWhereverItsInputStands) {
  const Buffers buffers =
      assigned(kInput + R"ir(  %1 = fused() {dtypes="f32", program="const(0) out(%0)", shape=[4]} : f32[4]
  %2 = input() {dtype="f32", name="grad", shape=[4]} : f32[4] #gradient
  output "grad" = %1 donates "grad"
)ir");
  EXPECT_EQ(buffers.buffer_of[1], buffers.buffer_of[2]);
  EXPECT_TRUE(buffers.final_copies.empty());
}

TEST(BuffersTest, StateStillReadAfterItsSuccessorIsMadeIsCopiedAtTheEnd) {
  const Buffers buffers =
      assigned(kInput + R"ir(  %1 = fused(%0) {dtypes="f32", program="in(0,1) neg(%0) out(%1)", shape=[2,3]} : f32[2,3]
  %2 = fused(%0, %1) {dtypes="f32", program="in(0,1) in(0,1) add(%0,%1) out(%2)", shape=[2,3]} : f32[2,3]
  output "next" = %1 donates "x"
  output "sum" = %2
)ir");
  EXPECT_NE(buffers.buffer_of[1], buffers.buffer_of[0]);
  ASSERT_EQ(buffers.final_copies.size(), 1U);
  EXPECT_EQ(buffers.final_copies[0].to_state, "x");
}

std::string input_of(const std::string& number, const std::string& name, const std::string& shape) {
  return "  %" + number + " = input() {dtype=\"f32\", name=\"" + name + "\", shape=" + shape + "} : f32" + shape +
         " #gradient\n";
}

TEST(BuffersTest, WhatIsSeenAsTheReplacementOfAStateIsWrittenThere) {
  const Buffers buffers = assigned(kInput + input_of("1", "w", "[6]") + R"(  %2 = cumsum(%0) {dim=0} : f32[2,3]
  %3 = reshape(%2) {shape=[3,2]} : f32[3,2]
  %4 = reshape(%3) {shape=[6]} : f32[6]
  output "w" = %4 donates "w"
)");
  for (const size_t value : {2U, 3U, 4U}) EXPECT_EQ(buffers.buffer_of[value], buffers.buffer_of[1]) << value;
  EXPECT_TRUE(buffers.final_copies.empty());
}

TEST(BuffersTest, WhatReplacesTwoStatesIsWrittenToOneAndCopiedToTheOther) {
  const std::string inputs = kInput + input_of("1", "v", "[6]") + input_of("2", "w", "[2,3]");
  const Buffers itself = assigned(inputs + R"(  %3 = cumsum(%0) {dim=0} : f32[2,3]
  %4 = reshape(%3) {shape=[6]} : f32[6]
  output "v" = %4 donates "v"
  output "w" = %3 donates "w"
)");
  EXPECT_EQ(itself.buffer_of[3], itself.buffer_of[2]) << "the one that it replaces by itself";
  ASSERT_EQ(itself.final_copies.size(), 1U);
  EXPECT_EQ(itself.final_copies[0].to_state, "v");
  const Buffers views = assigned(inputs + R"(  %3 = cumsum(%0) {dim=0} : f32[2,3]
  %4 = reshape(%3) {shape=[6]} : f32[6]
  %5 = reshape(%3) {shape=[2,3]} : f32[2,3]
  output "v" = %4 donates "v"
  output "w" = %5 donates "w"
)");
  EXPECT_EQ(views.buffer_of[3], views.buffer_of[2]);
  ASSERT_EQ(views.final_copies.size(), 1U);
  EXPECT_EQ(views.final_copies[0].to_state, "v");
}

TEST(BuffersTest, StateThatIsReadBehindWhatIsSeenAsItsReplacementIsCopiedAtTheEnd) {
  const Buffers buffers = assigned(kInput + input_of("1", "w", "[6]") + R"(  %2 = cumsum(%0) {dim=0} : f32[2,3]
  %3 = cumsum(%1) {dim=0} : f32[6]
  %4 = reshape(%2) {shape=[6]} : f32[6]
  output "w" = %4 donates "w"
  output "y" = %3
)");
  EXPECT_NE(buffers.buffer_of[2], buffers.buffer_of[1]);
  ASSERT_EQ(buffers.final_copies.size(), 1U);
  EXPECT_EQ(buffers.final_copies[0].to_state, "w");
}

// Of a bucket of gradients, one of which has another shape than its state.
TEST(BuffersTest, EveryResultOfACollectiveIsWrittenToTheStateItReplacesWhenItIsDone) {
  const Buffers buffers = assigned(kInput + input_of("1", "v", "[2,3]") + input_of("2", "w", "[6]") +
                                   R"(  %3 = cumsum(%0) {dim=0} : f32[2,3]
  %4 = cumsum(%0) {dim=1} : f32[2,3]
  %5, %6 = collective_start(%3, %4) {axes="x", kind="sum", op="all_reduce", parts=2} : f32[2,3], f32[2,3] #collective
  %7, %8 = collective_done(%5, %6) : f32[2,3], f32[2,3] #collective
  %9 = reshape(%8) {shape=[6]} : f32[6]
  output "v" = %7 donates "v"
  output "w" = %9 donates "w"
)");
  for (const size_t value : {5U, 7U}) EXPECT_EQ(buffers.buffer_of[value], buffers.buffer_of[1]) << value;
  for (const size_t value : {6U, 8U, 9U}) EXPECT_EQ(buffers.buffer_of[value], buffers.buffer_of[2]) << value;
  EXPECT_TRUE(buffers.final_copies.empty());
}

const std::string kNormInputs = kInput + R"(  %1 = input() {dtype="f32", name="w", shape=[3]} : f32[3] #weight
  %2 = input() {dtype="f32", name="rstd", shape=[2,1]} : f32[2,1] #batch
  %3 = input() {dtype="f32", name="sum", shape=[2,3]} : f32[2,3] #gradient
  %4 = cumsum(%0) {dim=0} : f32[2,3]
  %5 = cumsum(%0) {dim=1} : f32[2,3]
)";

Buffers with_norm_grad(const std::string& operands, const std::string& rest = "  output \"dx\" = %6\n") {
  return assigned(kNormInputs + "  %6, %7 = rms_norm_grad(" + operands + ") {eps=0.5} : f32[2,3], f32[3]\n" + rest +
                  "  output \"dw\" = %7\n");
}

TEST(BuffersTest, AGradientTakesThePlaceOfItsAddendOrElseOfItsCotangent) {
  const Buffers both_die = with_norm_grad("%0, %1, %2, %4, %5");
  EXPECT_EQ(both_die.buffer_of[6], both_die.buffer_of[5]) << "the sum goes on where it was";
  const Buffers addend_lives = with_norm_grad(
      "%0, %1, %2, %4, %5", "  %8 = cumsum(%5) {dim=0} : f32[2,3]\n  output \"dx\" = %6\n  output \"y\" = %8\n");
  EXPECT_EQ(addend_lives.buffer_of[6], addend_lives.buffer_of[4]);
}

TEST(BuffersTest, AnAddendThatIsReadAsAnotherOperandIsNotOverwritten) {
  const Buffers as_cotangent = with_norm_grad("%0, %1, %2, %4, %4");
  EXPECT_NE(as_cotangent.buffer_of[6], as_cotangent.buffer_of[4]);
  const Buffers as_input = with_norm_grad("%4, %1, %2, %5, %4");
  EXPECT_EQ(as_input.buffer_of[6], as_input.buffer_of[5]) << "the cotangent is free";
}

TEST(BuffersTest, AGradientThatReplacesAStateIsWrittenThere) {
  const std::string replaces = "  output \"sum\" = %6 donates \"sum\"\n";
  for (const char* operands : {"%0, %1, %2, %4, %3", "%0, %1, %2, %4, %5", "%0, %1, %2, %4"}) {
    const Buffers buffers = with_norm_grad(operands, replaces);
    EXPECT_EQ(buffers.buffer_of[6], buffers.buffer_of[3]) << operands;
    EXPECT_TRUE(buffers.final_copies.empty()) << operands;
  }
}

constexpr const char* kSquares = "{lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[3,3]\n";
const std::string kGradient = "  %1 = input() {dtype=\"f32\", name=\"grad\", shape=[3,3]} : f32[3,3] #gradient\n";

TEST(BuffersTest, SumThatReplacesStateIsThereFromItsFirstTermOn) {
  for (const char* first : {"  %2 = dot(%0, %0) ", "  %2 = dot(%0, %0, %1) "}) {
    SCOPED_TRACE(first);
    const Buffers buffers =
        assigned(kInput + kGradient + first + kSquares + "  %3 = dot(%0, %0, %2) " + kSquares +
                 "  %4 = dot(%0, %0, %3) " + kSquares + "  output \"grad\" = %4 donates \"grad\"\n");
    for (const size_t value : {size_t{2}, size_t{3}, size_t{4}})
      EXPECT_EQ(buffers.buffer_of[value], buffers.buffer_of[1]) << value;
    EXPECT_TRUE(buffers.final_copies.empty());
  }
}

TEST(BuffersTest, TermThatIsReadLaterIsNotInTheSum) {
  const Buffers buffers = assigned(kInput + kGradient + "  %2 = dot(%0, %0) " + kSquares + "  %3 = dot(%0, %0, %2) " +
                                   kSquares + "  output \"grad\" = %3 donates \"grad\"\n  output \"first\" = %2\n");
  EXPECT_NE(buffers.buffer_of[2], buffers.buffer_of[1]);
  EXPECT_EQ(buffers.buffer_of[3], buffers.buffer_of[1]);
  EXPECT_TRUE(buffers.final_copies.empty());
}

TEST(BuffersTest, OldValueOfReplacedStateIsRefusedAsAnOutput) {
  EXPECT_THROW(
      assigned(kInput + R"ir(  %1 = fused(%0) {dtypes="f32", program="in(0,1) neg(%0) out(%1)", shape=[2,3]} : f32[2,3]
  output "next" = %1 donates "x"
  output "old" = %0
)ir"),
      base::Error);
}

}  // namespace
}  // namespace megacpp::memory
