// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/join_swiglu.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"

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

Target target_with_swiglu(bool runs_joined) {
  return {.name = "test",
          .runs =
              [runs_joined](std::string_view, const ops::NodeView&) {
                return runs_joined ? base::Decision::yes() : base::Decision::no("it has no kernel");
              },
          .workspace_bytes = {}};
}

std::string swiglu_joined(const std::string& text, bool runs_joined = true) {
  return ir::print(join_swiglu(ir::parse(text), target_with_swiglu(runs_joined)));
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

// The gate is made with the other up, behind the gradient's product.
TEST(JoinSwigluTest, AGradientBeforeTheGateItReadsStays) {
  const std::string inputs = std::string(kSwigluInputs) +
                             R"(  %4 = input() {dtype="bf16", name="dy", shape=[1,1,4,8]} : bf16[1,1,4,8] #batch
  %5 = input() {dtype="bf16", name="w_down", shape=[2,16,8]} : bf16[2,16,8] #weight
  %6 = input() {dtype="bf16", name="up", shape=[1,1,4,16]} : bf16[1,1,4,16] #batch
)";
  // Of dh, gate, logistic(gate) and silu(gate); names %13 to %20.
  const auto rest = [](const std::string& dh, const std::string& gate, const std::string& s, const std::string& silu) {
    return inner_line("%13", "mul(" + dh + ", %6)") + inner_line("%14", "mul(" + dh + ", " + silu + ")") +
           inner_line("%15", "mul(%13, " + s + ")") + inner_line("%16", "mul(%13, " + gate + ")") +
           inner_line("%17", "mul(%16, " + s + ")") + inner_line("%18", "mul(%17, " + s + ")") +
           inner_line("%19", "sub(%17, %18)") + inner_line("%20", "add(%15, %19)");
  };
  const std::string dh = "ragged_dot(%4, %5, %3)", outputs = "  output \"dgate\" = %20\n  output \"dup\" = %14\n}\n";
  EXPECT_EQ(
      swiglu_joined(inputs + gate_product("%7") + inner_line("%8", "logistic(%7)") + inner_line("%9", "mul(%7, %8)") +
                    inner_line("%10", dh, "transpose_w=1") + up_product("%11") + inner_line("%12", "mul(%9, %11)") +
                    rest("%10", "%7", "%8", "%9") + "  output \"h\" = %12\n" + outputs),
      inputs + inner_line("%7", dh, "transpose_w=1") +
          "  %8, %9, %10 = ragged_swiglu(%0, %1, %2, %3) {keep_products=1} : " + kInnerType + ", " + kInnerType + ", " +
          kInnerType + " @E\n" + inner_line("%11", "logistic(%9)") + inner_line("%12", "mul(%9, %11)") +
          rest("%7", "%9", "%11", "%12") + "  output \"h\" = %8\n" + outputs);
}

}  // namespace
}  // namespace megacpp::schedule
