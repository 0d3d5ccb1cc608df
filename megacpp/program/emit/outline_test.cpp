// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/outline.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/ir/text.h"

namespace megacpp::emit {
namespace {

std::string numbers(const std::vector<ir::ValueId>& values) {
  std::vector<std::string> all;
  for (const ir::ValueId value : values) all.push_back("%" + std::to_string(value.index));
  return fmt::format("{}", fmt::join(all, " "));
}

// A line for each piece: "[3,5) kind 0 repeated reads %0 %1 leaves %4".
std::string outlined_text(const std::string& text) {
  std::string lines;
  for (const Piece& piece : outline(ir::parse(text)))
    lines += fmt::format("[{},{}) kind {}{} reads {} leaves {}\n", piece.nodes.front(), piece.nodes.back() + 1,
                         piece.kind, piece.is_repeated ? " repeated" : "", numbers(piece.reads), numbers(piece.leaves));
  return lines;
}

TEST(OutlineTest, BlocksOfAKindArePiecesThatDifferInWhatTheyReadOnly) {
  EXPECT_EQ(outlined_text(R"(graph "m" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] @batch #batch
  %1 = neg(%0) : f32[3] @embed
  %2 = input() {dtype="f32", name="a", shape=[3]} : f32[3] @block00.A #weight
  %3 = mul(%1, %2) : f32[3] @block00.A.norm
  %4 = add(%1, %3) : f32[3] @block00.A
  %5 = input() {dtype="f32", name="b", shape=[3]} : f32[3] @block01.A #weight
  %6 = mul(%4, %5) : f32[3] @block01.A.norm
  %7 = add(%4, %6) : f32[3] @block01.A
  %8 = exp(%7) : f32[3] @head
  output "y" = %8
}
)"),
            "[1,2) kind 0 reads %0 leaves %1\n"
            "[3,5) kind 1 repeated reads %1 %2 leaves %4\n"
            "[6,8) kind 1 repeated reads %4 %5 leaves %7\n"
            "[8,9) kind 3 reads %7 leaves %8\n");
}

// A table stands before its first use, in the middle of a block: the block stays whole, and is of the other's kind.
// Tables and other constants are one piece, whatever their scopes.
TEST(OutlineTest, TablesOfPositionsComeBeforeAllBlocks) {
  EXPECT_EQ(outlined_text(R"(graph "m" {
  %0 = input() {dtype="f32", name="w", shape=[3]} : f32[3] @embed #weight
  %1 = neg(%0) : f32[3] @embed
  %2 = exp(%1) : f32[3] @block00.A
  %3 = iota() {dim=0, dtype="f32", shape=[3]} : f32[3] @rope
  %4 = constant() {dtype="f32", shape=[3], value=2.0} : f32[3] @routers
  %5 = neg(%3) : f32[3] @rope
  %6 = mul(%2, %5) : f32[3] @block00.A
  %7 = add(%6, %4) : f32[3] @block00.A
  %8 = exp(%7) : f32[3] @block01.A
  %9 = mul(%8, %5) : f32[3] @block01.A
  %10 = add(%9, %4) : f32[3] @block01.A
  output "y" = %10
}
)"),
            "[3,6) kind 0 reads  leaves %4 %5\n"
            "[1,2) kind 1 reads %0 leaves %1\n"
            "[2,8) kind 2 repeated reads %1 %5 %4 leaves %7\n"
            "[8,11) kind 2 repeated reads %7 %5 %4 leaves %10\n");
}

// Accumulators of gradients are read where they are first needed.
TEST(OutlineTest, InputsAmongTheNodesOfAPieceAreReadByIt) {
  EXPECT_EQ(outlined_text(R"(graph "m" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] @block00.A #batch
  %1 = exp(%0) : f32[3] @block00.A
  %2 = input() {dtype="f32", name="w", shape=[3]} : f32[3] @block00.A #weight
  %3 = mul(%1, %2) : f32[3] @block00.A
  output "y" = %3
}
)"),
            "[1,4) kind 0 reads %0 %2 leaves %3\n");
}

TEST(OutlineTest, ValuesLeaveForOutputsAndForLaterPieces) {
  EXPECT_EQ(outlined_text(R"(graph "m" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] @batch #batch
  %1 = exp(%0) : f32[3] @block00.A
  %2 = neg(%1) : f32[3] @block00.A
  %3 = sqrt(%2) : f32[3] @block00.A
  %4 = exp(%0) : f32[3] @block01.A
  %5 = neg(%4) : f32[3] @block01.A
  %6 = sqrt(%5) : f32[3] @block01.A
  %7 = add(%1, %6) : f32[3] @head
  output "y" = %7
  output "z" = %3
}
)"),
            "[1,4) kind 0 reads %0 leaves %1 %3\n"
            "[4,7) kind 1 reads %0 leaves %6\n"
            "[7,8) kind 2 reads %1 %6 leaves %7\n");
}

// Pairs of one-node blocks over x: f32[2,3]. Only what changes the numbers makes a kind.
TEST(OutlineTest, KindsDifferInOpsAttributesTypesAndOperandsButNotInRemarks) {
  const auto is_one_kind = [](const std::string& first, const std::string& second) {
    const std::string text = fmt::format(R"(graph "m" {{
  %0 = input() {{dtype="f32", name="x", shape=[2,3]}} : f32[2,3] @batch #batch
  %1 = input() {{dtype="f32", name="y", shape=[2,3]}} : f32[2,3] @batch #batch
  %2 = {} @block00.A
  %3 = {} @block01.E.part
  output "a" = %2
  output "b" = %3
}}
)",
                                         first, second);
    return outline(ir::parse(text))[1].kind == 0;
  };
  EXPECT_TRUE(is_one_kind("exp(%0) : f32[2,3]", "exp(%1) : f32[2,3]"));
  EXPECT_FALSE(is_one_kind("exp(%0) : f32[2,3]", "neg(%0) : f32[2,3]"));
  EXPECT_FALSE(
      is_one_kind("reduce(%0) {dims=[0], kind=\"sum\"} : f32[3]", "reduce(%0) {dims=[0], kind=\"max\"} : f32[3]"));
  EXPECT_FALSE(
      is_one_kind("reduce(%0) {dims=[0], kind=\"sum\"} : f32[3]", "reduce(%0) {dims=[1], kind=\"sum\"} : f32[2]"));
  EXPECT_TRUE(is_one_kind("add(%0, %1) : f32[2,3]", "add(%1, %0) : f32[2,3]"));
  EXPECT_FALSE(is_one_kind("add(%0, %1) : f32[2,3]", "add(%0, %0) : f32[2,3]"));
  const std::string sum = R"(all_reduce(%0) {axes="data", cause="CAUSE", kind="sum", parts=2} : f32[2,3])";
  std::string other = sum;
  other.replace(other.find("CAUSE"), 5, "block1");
  EXPECT_TRUE(is_one_kind(sum, other));
}

// Block, head, the block's backward pass, of which these are two nodes.
bool recomputes(const std::string& node, const std::string& reader) {
  const std::vector<Piece> pieces = outline(ir::parse(fmt::format(R"(graph "m" {{
  %0 = input() {{dtype="f32", name="x", shape=[3,3]}} : f32[3,3] @batch #batch
  %1 = input() {{dtype="f32", name="w", shape=[3,3]}} : f32[3,3] @block00.A #weight
  %2 = constant() {{dtype="f32", shape=[3,3], value=2.0}} : f32[3,3] @block00.A
  %3 = mul(%1, %2) : f32[3,3] @block00.A
  %4 = dot(%0, %3) {{lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}} : f32[3,3] @block00.A
  %5 = neg(%4) : f32[3,3] @head
  %6 = constant() {{dtype="f32", shape=[3,3], value=2.0}} : f32[3,3] @block00.A
  %7 = {} : f32[3,3] @block00.A
  %8 = {} : f32[3,3] @block00.A
  %9 = add(%5, %8) : f32[3,3] @block00.A
  output "y" = %9
}}
)",
                                                                  node, reader)));
  EXPECT_EQ(pieces.size(), 3U);
  EXPECT_FALSE(pieces[0].recomputes);
  return pieces[2].recomputes;
}

TEST(OutlineTest, ABackwardPassRecomputesWhereProductsNeedWhatItsForwardPassHasComputed) {
  const auto dot = [](const std::string& operands) {
    return "dot(" + operands + ") {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}";
  };
  EXPECT_TRUE(recomputes("mul(%1, %6)", dot("%5, %7"))) << "of constants that are equal";
  EXPECT_TRUE(recomputes("mul(%1, %2)", dot("%5, %7")));
  EXPECT_TRUE(recomputes(dot("%0, %3"), "neg(%7)"));
  EXPECT_FALSE(recomputes("mul(%1, %6)", "neg(%7)")) << "a fusion makes it again";
  EXPECT_FALSE(recomputes("add(%1, %6)", dot("%5, %7")));
  EXPECT_FALSE(recomputes(dot("%5, %3"), "neg(%7)")) << "of what was kept";
  EXPECT_FALSE(recomputes("neg(%6)", dot("%5, %6"))) << "constants are no work";
}

// Block, head, the block's backward pass, which makes %3 again, changes it and multiplies by that.
bool recomputes_through(const std::string& change) {
  const std::vector<Piece> pieces = outline(ir::parse(fmt::format(R"(graph "m" {{
  %0 = input() {{dtype="f32", name="x", shape=[3,3]}} : f32[3,3] @batch #batch
  %1 = input() {{dtype="f32", name="w", shape=[3,3]}} : f32[3,3] @block00.A #weight
  %2 = neg(%1) : f32[3,3] @block00.A
  %3 = dot(%0, %2) {{lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}} : f32[3,3] @block00.A
  %4 = exp(%3) : f32[3,3] @head
  %5 = neg(%1) : f32[3,3] @block00.A
  %6 = {} : f32[3,3] @block00.A
  %7 = dot(%4, %6) {{lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}} : f32[3,3] @block00.A
  output "y" = %7
}}
)",
                                                                  change)));
  EXPECT_EQ(pieces.size(), 3U);
  return pieces[2].recomputes;
}

TEST(OutlineTest, WhatIsMadeAgainIsSeenThroughItsViews) {
  EXPECT_TRUE(recomputes_through("transpose(%5) {permutation=[1,0]}"));
  EXPECT_TRUE(recomputes_through("reshape(%5) {shape=[3,3]}"));
  EXPECT_TRUE(recomputes_through("slice(%5) {dim=0, size=3, start=0}"));
  EXPECT_TRUE(recomputes_through("convert(%5) {dtype=\"f32\"}"));
  EXPECT_FALSE(recomputes_through("add(%5, %4)")) << "a fusion makes it again";
}

TEST(OutlineTest, ConvolutionsAndRecurrencesAreNotMadeAgainByFusions) {
  const auto recomputes_of = [](const std::string& node) {
    const std::vector<Piece> pieces = outline(ir::parse(fmt::format(R"(graph "m" {{
  %0 = input() {{dtype="f32", name="x", shape=[2,5,3]}} : f32[2,5,3] @batch #batch
  %1 = input() {{dtype="f32", name="w", shape=[3,4]}} : f32[3,4] @block00.R #weight
  %2 = {} : f32[2,5,3] @block00.R
  %3 = exp(%2) : f32[2,5,3] @head
  %4 = {} : f32[2,5,3] @block00.R
  %5 = mul(%3, %4) : f32[2,5,3] @block00.R
  output "y" = %5
}}
)",
                                                                    node, node)));
    EXPECT_EQ(pieces.size(), 3U);
    return pieces[2].recomputes;
  };
  EXPECT_TRUE(recomputes_of("causal_conv(%0, %1) {reverse=0}"));
  EXPECT_TRUE(recomputes_of("linear_recurrence(%0, %0) {reverse=0}"));
  EXPECT_FALSE(recomputes_of("exp(%0)"));
}

TEST(OutlineTest, AGraphOfInputsHasNoPieces) {
  EXPECT_EQ(outlined_text(R"(graph "m" {
  %0 = input() {dtype="f32", name="x", shape=[3]} : f32[3] @batch #batch
  output "y" = %0
}
)"),
            "");
}

}  // namespace
}  // namespace megacpp::emit
