// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/join_swiglu.h"

#include <gtest/gtest.h>

#include "megacpp/ir/text.h"

namespace megacpp::schedule {
namespace {

// Four packed rows of two experts, 8 wide, and 16 inside.
constexpr const char* kSwigluInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="x", shape=[1,1,4,8]} : bf16[1,1,4,8] #batch
  %1 = input() {dtype="bf16", name="w_gate", shape=[2,8,16]} : bf16[2,8,16] #weight
  %2 = input() {dtype="bf16", name="w_up", shape=[2,8,16]} : bf16[2,8,16] #weight
  %3 = input() {dtype="i32", name="counts", shape=[1,1,2]} : i32[1,1,2] #batch
)";
constexpr const char* kGradInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="dy", shape=[1,1,4,8]} : bf16[1,1,4,8] #batch
  %1 = input() {dtype="bf16", name="w_down", shape=[2,16,8]} : bf16[2,16,8] #weight
  %2 = input() {dtype="i32", name="counts", shape=[1,1,2]} : i32[1,1,2] #batch
  %3 = input() {dtype="bf16", name="gate", shape=[1,1,4,16]} : bf16[1,1,4,16] #batch
  %4 = input() {dtype="bf16", name="up", shape=[1,1,4,16]} : bf16[1,1,4,16] #batch
)";
const std::string kInnerType = "bf16[1,1,4,16]";

Target target_with_swiglu(bool runs_joined, bool joins_dense) {
  return {.name = "test",
          .runs =
              [runs_joined](std::string_view, const ops::NodeView&) {
                return runs_joined ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {},
          .joins_dense_swiglu = joins_dense};
}

std::string swiglu_joined(const std::string& text, bool runs_joined = true, bool joins_dense = true) {
  return ir::print(join_swiglu(ir::parse(text), target_with_swiglu(runs_joined, joins_dense)));
}

// "  %4 = mul(%2, %3) : bf16[1,1,4,16] @E"
std::string inner_line(const std::string& name, const std::string& call, const std::string& attrs = "") {
  return "  " + name + " = " + call + (attrs.empty() ? "" : " {" + attrs + "}") + " : " + kInnerType + " @E\n";
}

std::string gate_product(const std::string& name, const std::string& x = "%0") {
  return inner_line(name, "ragged_dot(" + x + ", %1, %3)", "transpose_w=0");
}
std::string up_product(const std::string& name, const std::string& x = "%0") {
  return inner_line(name, "ragged_dot(" + x + ", %2, %3)", "transpose_w=0");
}

std::string forward_program(const std::string& outputs) {
  return kSwigluInputs + gate_product("%4") + up_product("%5") + inner_line("%6", "logistic(%4)") +
         inner_line("%7", "mul(%4, %6)") + inner_line("%8", "mul(%7, %5)") + "  output \"h\" = %8\n" + outputs + "}\n";
}

TEST(JoinSwigluTest, WithoutABackwardPassHAloneIsLeft) {
  EXPECT_EQ(swiglu_joined(forward_program("")),
            kSwigluInputs + inner_line("%4", "ragged_swiglu(%0, %1, %2, %3)", "keep_products=0") +
                "  output \"h\" = %4\n}\n");
}

TEST(JoinSwigluTest, ProductsThatAreReadAreLeftToo) {
  const std::string joined = std::string(kSwigluInputs) +
                             "  %4, %5, %6 = ragged_swiglu(%0, %1, %2, %3) {keep_products=1} : " + kInnerType + ", " +
                             kInnerType + ", " + kInnerType + " @E\n";
  EXPECT_EQ(swiglu_joined(forward_program("  output \"gate\" = %4\n")),
            joined + "  output \"h\" = %4\n  output \"gate\" = %5\n}\n");
  EXPECT_EQ(swiglu_joined(forward_program("  output \"up\" = %5\n")),
            joined + "  output \"h\" = %4\n  output \"up\" = %6\n}\n");
}

// As a block is recomputed: the gate's silu before up's product.
TEST(JoinSwigluTest, ASiluThatIsReadElsewhereWaitsForBothProducts) {
  EXPECT_EQ(swiglu_joined(kSwigluInputs + gate_product("%4") + inner_line("%5", "logistic(%4)") +
                          inner_line("%6", "mul(%4, %5)") + up_product("%7") + inner_line("%8", "mul(%6, %7)") +
                          "  output \"h\" = %8\n  output \"silu\" = %6\n}\n"),
            std::string(kSwigluInputs) + "  %4, %5, %6 = ragged_swiglu(%0, %1, %2, %3) {keep_products=1} : " +
                kInnerType + ", " + kInnerType + ", " + kInnerType + " @E\n" + inner_line("%7", "logistic(%5)") +
                inner_line("%8", "mul(%5, %7)") + "  output \"h\" = %4\n  output \"silu\" = %8\n}\n");
}

TEST(JoinSwigluTest, AGateThatIsReadBeforeUpIsMadeStays) {
  const std::string text = kSwigluInputs + gate_product("%4") + inner_line("%5", "exp(%4)") + up_product("%6") +
                           inner_line("%7", "logistic(%4)") + inner_line("%8", "mul(%4, %7)") +
                           inner_line("%9", "mul(%8, %6)") + "  output \"h\" = %9\n  output \"e\" = %5\n}\n";
  EXPECT_EQ(swiglu_joined(text), text);
}

TEST(JoinSwigluTest, ProductsOfOtherRowsAndWhatTheTargetWouldNotRunStay) {
  const std::string other = kSwigluInputs + std::string("  %4 = neg(%0) : bf16[1,1,4,8]\n") + gate_product("%5") +
                            up_product("%6", "%4") + inner_line("%7", "logistic(%5)") +
                            inner_line("%8", "mul(%5, %7)") + inner_line("%9", "mul(%8, %6)") +
                            "  output \"h\" = %9\n}\n";
  EXPECT_EQ(swiglu_joined(other), other);
  EXPECT_EQ(swiglu_joined(forward_program(""), false), forward_program(""));
}

// ---- Backward ----

// From the gate's silu (%5, %6) on, with `h` between it and the product; names of the rest go on from %`first`.
std::string grad_program(const std::string& h, int first, const std::string& rest, const std::string& order = "") {
  const auto v = [first](int i) { return "%" + std::to_string(first + i); };
  const std::string difference = order.empty() ? v(5) + ", " + v(6) : v(6) + ", " + v(5);
  return kGradInputs + inner_line("%5", "logistic(%3)") + inner_line("%6", "mul(%3, %5)") + h +
         inner_line(v(0), "ragged_dot(%0, %1, %2)", "transpose_w=1") + inner_line(v(1), "mul(" + v(0) + ", %4)") +
         inner_line(v(2), "mul(" + v(0) + ", %6)") + inner_line(v(3), "mul(" + v(1) + ", %5)") +
         inner_line(v(4), "mul(" + v(1) + ", %3)") + inner_line(v(5), "mul(" + v(4) + ", %5)") +
         inner_line(v(6), "mul(" + v(5) + ", %5)") + inner_line(v(7), "sub(" + difference + ")") +
         inner_line(v(8), "add(" + v(3) + ", " + v(7) + ")") + rest + "  output \"dgate\" = " + v(8) +
         "\n  output \"dup\" = " + v(2) + "\n}\n";
}

TEST(JoinSwigluTest, TheGradientOfHNeverLeavesItsProduct) {
  EXPECT_EQ(swiglu_joined(grad_program("", 7, "")),
            kGradInputs + std::string("  %5, %6 = ragged_swiglu_grad(%0, %1, %2, %3, %4) {make_h=0} : ") + kInnerType +
                ", " + kInnerType + " @E\n  output \"dgate\" = %5\n  output \"dup\" = %6\n}\n");
}

TEST(JoinSwigluTest, AnHThatIsMadeForLaterIsMadeThere) {
  EXPECT_EQ(swiglu_joined(grad_program(inner_line("%7", "mul(%6, %4)"), 8,
                                       inner_line("%17", "exp(%7)") + "  output \"e\" = %17\n")),
            kGradInputs + std::string("  %5, %6, %7 = ragged_swiglu_grad(%0, %1, %2, %3, %4) {make_h=1} : ") +
                kInnerType + ", " + kInnerType + ", " + kInnerType + " @E\n" + inner_line("%8", "exp(%7)") +
                "  output \"e\" = %8\n  output \"dgate\" = %5\n  output \"dup\" = %6\n}\n");
}

TEST(JoinSwigluTest, AnHThatIsReadBeforeStays) {
  const std::string h = inner_line("%7", "mul(%6, %4)") + inner_line("%8", "exp(%7)");
  EXPECT_EQ(swiglu_joined(grad_program(h, 9, "  output \"e\" = %8\n")),
            kGradInputs + inner_line("%5", "logistic(%3)") + inner_line("%6", "mul(%3, %5)") + h +
                "  %9, %10 = ragged_swiglu_grad(%0, %1, %2, %3, %4) {make_h=0} : " + kInnerType + ", " + kInnerType +
                " @E\n  output \"e\" = %8\n  output \"dgate\" = %9\n  output \"dup\" = %10\n}\n");
}

TEST(JoinSwigluTest, AGradientOfHThatIsReadElsewhereStaysAndSoDoesAnotherFormula) {
  for (const std::string& text : {grad_program("", 7, "  output \"dh\" = %7\n"), grad_program("", 7, "", "reversed"),
                                  grad_program("", 7, "  output \"slope\" = %12\n")})
    EXPECT_EQ(swiglu_joined(text), text);
  EXPECT_EQ(swiglu_joined(grad_program("", 7, ""), false), grad_program("", 7, ""));
}

// Nothing is recomputed: h and silu(gate) are the forward pass's own.
TEST(JoinSwigluTest, BothPassesOfAProgramAreJoined) {
  const std::string down = "  %4 = input() {dtype=\"bf16\", name=\"w_down\", shape=[2,16,8]} : bf16[2,16,8] #weight\n";
  const std::string y = "ragged_dot(%H, %4, %3) {transpose_w=0} : bf16[1,1,4,8] @E\n";
  const auto with_h = [&y](const std::string& h) { return y.substr(0, 11) + h + y.substr(13); };
  const std::string before =
      kSwigluInputs + down + gate_product("%5") + up_product("%6") + inner_line("%7", "logistic(%5)") +
      inner_line("%8", "mul(%5, %7)") + inner_line("%9", "mul(%8, %6)") + "  %10 = " + with_h("%9") +
      inner_line("%11", "ragged_dot(%10, %4, %3)", "transpose_w=1") + inner_line("%12", "mul(%11, %6)") +
      inner_line("%13", "mul(%11, %8)") + inner_line("%14", "mul(%12, %7)") + inner_line("%15", "mul(%12, %5)") +
      inner_line("%16", "mul(%15, %7)") + inner_line("%17", "mul(%16, %7)") + inner_line("%18", "sub(%16, %17)") +
      inner_line("%19", "add(%14, %18)") + "  output \"h\" = %9\n  output \"dgate\" = %19\n  output \"dup\" = %13\n}\n";
  EXPECT_EQ(swiglu_joined(before),
            kSwigluInputs + down + "  %5, %6, %7 = ragged_swiglu(%0, %1, %2, %3) {keep_products=1} : " + kInnerType +
                ", " + kInnerType + ", " + kInnerType + " @E\n  %8 = " + with_h("%5") +
                "  %9, %10 = ragged_swiglu_grad(%8, %4, %3, %6, %7) {make_h=0} : " + kInnerType + ", " + kInnerType +
                " @E\n  output \"h\" = %5\n  output \"dgate\" = %9\n  output \"dup\" = %10\n}\n");
}

// ---- Dense ----

// Both passes of four rows.
std::string dense_program(const std::string& result, const std::string& attrs = "") {
  const auto dot = [&](const std::string& name, const std::string& operands, int contracted) {
    return "  " + name + " = dot(" + operands + ") {" + attrs + "lhs_batch=[], lhs_contract=[1], rhs_batch=[], " +
           "rhs_contract=[" + std::to_string(contracted) + "]} : " + result + " @E\n";
  };
  const auto each = [&](const std::string& name, const std::string& call) {
    return "  " + name + " = " + call + " : " + result + " @E\n";
  };
  return dot("%5", "%0, %1", 0) + dot("%6", "%0, %2", 0) + each("%7", "logistic(%5)") + each("%8", "mul(%5, %7)") +
         each("%9", "mul(%8, %6)") + dot("%10", "%4, %3", 1) + each("%11", "mul(%10, %6)") +
         each("%12", "mul(%10, %8)") + each("%13", "mul(%11, %7)") + each("%14", "mul(%11, %5)") +
         each("%15", "mul(%14, %7)") + each("%16", "mul(%15, %7)") + each("%17", "sub(%15, %16)") +
         each("%18", "add(%13, %17)") + "  output \"h\" = %9\n  output \"dgate\" = %18\n  output \"dup\" = %12\n}\n";
}

constexpr const char* kDenseInputs = R"(graph "g" {
  %0 = input() {dtype="bf16", name="x", shape=[4,8]} : bf16[4,8] #batch
  %1 = input() {dtype="bf16", name="w_gate", shape=[8,16]} : bf16[8,16] #weight
  %2 = input() {dtype="bf16", name="w_up", shape=[8,16]} : bf16[8,16] #weight
  %3 = input() {dtype="bf16", name="w_down", shape=[16,8]} : bf16[16,8] #weight
  %4 = input() {dtype="bf16", name="dy", shape=[4,8]} : bf16[4,8] #batch
)";

// h is an output and is read before the product of the backward pass by nothing: it is the forward pass's all the same.
TEST(JoinSwigluTest, DenseProductsAreJoinedWhereTheTargetWantsIt) {
  const std::string before = kDenseInputs + dense_program("bf16[4,16]");
  EXPECT_EQ(swiglu_joined(before),
            std::string(kDenseInputs) +
                "  %5, %6, %7 = dense_swiglu(%0, %1, %2) {keep_products=1} : bf16[4,16], bf16[4,16], bf16[4,16] @E\n"
                "  %8, %9 = dense_swiglu_grad(%4, %3, %6, %7) {make_h=0} : bf16[4,16], bf16[4,16] @E\n"
                "  output \"h\" = %5\n  output \"dgate\" = %8\n  output \"dup\" = %9\n}\n");
  EXPECT_EQ(swiglu_joined(before, true, false), before);
}

TEST(JoinSwigluTest, DenseProductsThatLeaveAnotherDtypeStay) {
  const std::string before = kDenseInputs + dense_program("f32[4,16]", "dtype=\"f32\", ");
  EXPECT_EQ(swiglu_joined(before), before);
}

}  // namespace
}  // namespace megacpp::schedule
