// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/node_time.h"

#include <gtest/gtest.h>

#include "megacpp/hardware/hw/chip_library.h"

namespace megacpp::fit {
namespace {

// Numbers that divide well: 256 operations and 1280 bytes a second.
hw::Chip toy() {
  hw::Chip chip;
  chip.memory_bytes_per_second = 1280;
  chip.peak_flops = {{"f32", 256}};
  return chip;
}

/// 2 * 8 * 16 * 8 = 2048 FLOPs: 8 s. (128 + 128 + 64) * 4 = 1280 bytes: 1 s.
NodeTime product_on(const hw::Chip& chip) {
  const ops::Types operands = {{ir::DType::f32, {8, 16}}, {ir::DType::f32, {16, 8}}};
  const ops::Types results = {{ir::DType::f32, {8, 8}}};
  const ir::Attrs attrs = {{"lhs_contract", std::vector<int64_t>{1}}, {"rhs_contract", std::vector<int64_t>{0}}};
  return node_time(chip, ops::op_def("dot"), {operands, results, attrs});
}

/// 64 elements are read and 64 written: 512 bytes.
NodeTime copy_on(const hw::Chip& chip) {
  const ops::Types types = {{ir::DType::f32, {64}}};
  const ir::Attrs attrs;
  return node_time(chip, ops::op_def("neg"), {types, types, attrs});
}

TEST(NodeTimeTest, NothingKnownOfAChipLeavesTheRoofline) {
  const NodeTime product = product_on(toy());
  EXPECT_DOUBLE_EQ(product.seconds, 8);
  EXPECT_DOUBLE_EQ(product.limit, 8);
  EXPECT_TRUE(product.arithmetic_bound);
  EXPECT_FALSE(toy().reached.is_known());
}

TEST(NodeTimeTest, EachKindOfWorkReachesItsShare) {
  hw::Chip chip = toy();
  chip.reached.products = 0.5;
  chip.reached.traffic = 0.4;
  EXPECT_DOUBLE_EQ(product_on(chip).seconds, 16);
  EXPECT_DOUBLE_EQ(product_on(chip).limit, 8) << "the roofline stays";
  EXPECT_DOUBLE_EQ(product_on(chip).arithmetic, 8);
  const NodeTime copy = copy_on(chip);
  EXPECT_DOUBLE_EQ(copy.limit, 0.4);
  EXPECT_DOUBLE_EQ(copy.seconds, 1);
  EXPECT_FALSE(copy.arithmetic_bound);
}

// A kernel of a small node takes as long as it is known to take, and is launched once.
TEST(NodeTimeTest, NoKernelIsShorterThanItIsKnownToBe) {
  const ops::Types x = {{ir::DType::f32, {64}}};
  hw::Chip chip = toy();
  chip.reached.launch = 0.25;
  const ops::OpDef& op = ops::op_def("neg");
  const auto seconds = [&](const NodeRun& run) { return node_time(chip, op, {x, x, {}}, run).seconds; };
  const double own = seconds({}) - 0.25;
  EXPECT_DOUBLE_EQ(seconds({.least_seconds = own / 2}), own + 0.25) << "its bytes take longer";
  EXPECT_DOUBLE_EQ(seconds({.least_seconds = 2 * own}), 2 * own + 0.25);
  EXPECT_DOUBLE_EQ(seconds({.shares_launch = true}), own) << "a node before it has paid for the launch";
}

TEST(NodeTimeTest, EveryKernelIsLaunched) {
  hw::Chip chip = toy();
  chip.reached.launch = 0.25;
  EXPECT_DOUBLE_EQ(product_on(chip).seconds, 8.25);
  EXPECT_DOUBLE_EQ(copy_on(chip).seconds, 0.65);
  EXPECT_DOUBLE_EQ(copy_on(chip).limit, 0.4) << "a limit has no gaps";
}

TEST(NodeTimeTest, WorkIsSlowerBesideCollectivesAndNoLonger) {
  hw::Chip chip = toy();
  EXPECT_DOUBLE_EQ(slowed_beside(chip, 8, 4), 8) << "nothing is known of it";
  chip.reached.beside_collectives = 0.5;
  EXPECT_DOUBLE_EQ(slowed_beside(chip, 8, 0), 8);
  EXPECT_DOUBLE_EQ(slowed_beside(chip, 8, 4), 10) << "two seconds' work in the first four";
  EXPECT_DOUBLE_EQ(slowed_beside(chip, 8, 16), 16);
  EXPECT_DOUBLE_EQ(slowed_beside(chip, 8, 40), 16);
}

TEST(NodeTimeTest, AttentionGoesByTheWidthOfItsHeads) {
  hw::Chip chip = toy();
  chip.reached.products = 0.7;
  chip.reached.attention = {{64, 0.4}, {128, 0.6}};
  using enum ops::Work;
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention, 64), 0.4);
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention, 96), 0.4) << "the widest known that is not wider";
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention, 128), 0.6);
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention, 512), 0.6);
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention, 16), 0.4) << "the narrowest known";
  EXPECT_DOUBLE_EQ(share_of_peak(chip, attention_grad, 64), 0.7) << "not known: as products";
  EXPECT_DOUBLE_EQ(share_of_peak(chip, ssd), 0.7);
  chip.reached.ssd = 0.1;
  EXPECT_DOUBLE_EQ(share_of_peak(chip, ssd), 0.1);
  EXPECT_DOUBLE_EQ(share_of_peak(toy(), attention, 64), 1);
}

TEST(NodeTimeTest, TheWidthIsThatOfTheNode) {
  const auto attention_on = [](const hw::Chip& chip, int64_t width) {
    const ir::TensorType x{ir::DType::f32, {1, 64, 2, width}};
    const ops::Types operands = {x, x, x};
    const ir::Attrs attrs = {{"scale", 1.0}, {"causal", int64_t{1}}};
    const ops::OpDef& op = ops::op_def("attention");
    const ops::Types results = op.infer(operands, attrs);
    return node_time(chip, op, {operands, results, attrs}).seconds;
  };
  hw::Chip chip = toy();
  const double narrow = attention_on(chip, 64), wide = attention_on(chip, 128);
  chip.reached.attention = {{64, 0.25}, {128, 0.5}};
  EXPECT_DOUBLE_EQ(attention_on(chip, 64), 4 * narrow);
  EXPECT_DOUBLE_EQ(attention_on(chip, 128), 2 * wide);
}

// A loop reads its blocks of keys again for each block of queries: bytes that no operand shows.
TEST(NodeTimeTest, LoopsMoveMoreThanTheirOperands) {
  const ir::TensorType x{ir::DType::f32, {1, 8192, 2, 64}};
  const ops::Types operands = {x, x, x};
  const ir::Attrs attrs = {{"scale", 1.0}, {"causal", int64_t{1}}};
  const ops::OpDef& op = ops::op_def("blocked_attention");
  const ops::Types results = op.infer(operands, attrs);
  hw::Chip chip = toy();
  chip.memory_bytes_per_second = 1;
  chip.peak_flops = {{"f32", 1e9}};
  const double seconds = node_time(chip, op, {operands, results, attrs}).seconds;
  const double once = static_cast<double>(3 * x.bytes() + results[0].bytes() + results[1].bytes());
  // 16 blocks of 512: q, k, v, out and the sums of queries, twice, for each of 136 pairs; of q, k, v and out the first
  // time is that of the node.
  constexpr double kBlock = 512 * 2 * 64 * 4;
  EXPECT_DOUBLE_EQ(seconds - once, (136 * 6 - 16 * 4) * kBlock);
}

/// 2 sequences of 8 packed rows times the matrices of 3 experts, or of each expert's own 8.
NodeTime experts_on(const hw::Chip& chip, bool packed, Compiler compiler) {
  const ir::Shape rows = packed ? ir::Shape{2, 1, 8, 4} : ir::Shape{2, 1, 3, 8, 4};
  const ops::Types operands = {{ir::DType::f32, rows}, {ir::DType::f32, {3, 4, 64}}, {ir::DType::i32, {2, 1, 3}}};
  const ir::Attrs attrs = {{"transpose_w", int64_t{0}}};
  const ops::OpDef& op = ops::op_def("ragged_dot");
  const ops::Types results = op.infer(operands, attrs);
  return node_time(chip, op, {operands, results, attrs}, {.compiler = compiler});
}

TEST(NodeTimeTest, XlaMultipliesPackedRowsWithEveryExpert) {
  using enum Compiler;
  const NodeTime once = experts_on(toy(), true, ours), by_xla = experts_on(toy(), true, xla);
  ASSERT_TRUE(once.arithmetic_bound);
  EXPECT_DOUBLE_EQ(by_xla.seconds, 3 * once.seconds);
  EXPECT_DOUBLE_EQ(by_xla.limit, 3 * once.limit) << "its program has no less to do";
  EXPECT_DOUBLE_EQ(experts_on(toy(), false, xla).seconds, experts_on(toy(), false, ours).seconds);
}

// What products read and leave goes through the memory of a GPU; in a roofline, and on TPUs, it does not.
TEST(NodeTimeTest, PartsOfStateSpaceProductsGoThroughMemoryWhereXlaRunsThem) {
  const ir::TensorType x{ir::DType::bf16, {2, 512, 8, 64}}, dt{ir::DType::f32, {2, 512, 8}}, a{ir::DType::f32, {8}};
  const ir::TensorType bc{ir::DType::bf16, {2, 512, 1, 128}};
  const ops::Types operands = {x, dt, a, bc, bc};
  const ir::Attrs attrs = {{"chunk", int64_t{128}}};
  const ops::OpDef& op = ops::op_def("ssd");
  const ops::Types results = op.infer(operands, attrs);
  const ops::NodeView view{operands, results, attrs};
  const double bytes = op.cost_by_xla(view).bytes;
  ASSERT_GT(bytes, 0);
  hw::Chip chip = toy();
  chip.peak_flops = {{"bf16", 1e12}};
  const NodeTime roofline = node_time(chip, op, view);
  EXPECT_DOUBLE_EQ(node_time(chip, op, view, {.compiler = Compiler::xla}).seconds, roofline.seconds)
      << "nothing is known of it";
  chip.reached.products = 1;
  chip.reached.traffic = 0.5;
  const NodeTime ours = node_time(chip, op, view), by_xla = node_time(chip, op, view, {.compiler = Compiler::xla});
  EXPECT_DOUBLE_EQ(by_xla.seconds, ours.seconds + bytes / 1280 / 0.5);
  EXPECT_DOUBLE_EQ(by_xla.limit, roofline.limit);
  chip.tiling.lanes = 128;
  EXPECT_DOUBLE_EQ(node_time(chip, op, view, {.compiler = Compiler::xla}).seconds, ours.seconds);
}

// What MFU can be at most follows from the file: nobody trains at three quarters of such a chip's peak.
TEST(NodeTimeTest, ChipsOfWhichRatesAreKnownReachLessThanTheirPeak) {
  for (const char* name : {"h100", "h200"}) {
    const hw::Chip chip = hw::find_chip(name, hw::ChipPlaces{});
    ASSERT_TRUE(chip.reached.is_known()) << name;
    for (const ops::Work work : {ops::Work::product, ops::Work::attention, ops::Work::attention_grad, ops::Work::ssd}) {
      EXPECT_GT(share_of_peak(chip, work, 64), 0.01) << name;
      EXPECT_LT(share_of_peak(chip, work, 64), 0.75) << name;
    }
  }
}

}  // namespace
}  // namespace megacpp::fit
