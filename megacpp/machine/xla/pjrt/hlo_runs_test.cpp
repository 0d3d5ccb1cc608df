// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/hlo_runs.h"

#include <gtest/gtest.h>

#include <random>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/hlo_product.h"
#include "megacpp/machine/xla/pjrt/program.h"
#include "tests/support/cpu_plugin.h"

namespace megacpp::runtime::pjrt {
namespace {

class HloRunsTest : public testing_support::CpuPluginTest {};

HloProgram compiled(const std::string& text, double& xla_flops) {
  const LoadedProgram program = compile(testing_support::cpu_client(1), text, {});
  xla_flops = program.compiled().cost().at("flops");
  return read_hlo_program(program.compiled().optimized());
}

double products(const HloProgram& program) {
  double flops = 0;
  for (const HloComputation& computation : program.computations)
    for (const HloInstruction& instruction : computation.instructions) flops += instruction.flops;
  return flops;
}

TEST_F(HloRunsTest, ProductsAreCountedAsXlaCountsThem) {
  double flops = 0;
  const HloProgram dot = compiled(R"(
func.func public @main(%x: tensor<3x64x48xf32>, %w: tensor<3x48x40xf32>) -> tensor<3x64x40xf32> {
  %y = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
      : (tensor<3x64x48xf32>, tensor<3x48x40xf32>) -> tensor<3x64x40xf32>
  return %y : tensor<3x64x40xf32>
})",
                                  flops);
  EXPECT_EQ(products(dot), 2.0 * 3 * 64 * 48 * 40);
  EXPECT_EQ(products(dot), flops);
  const HloProgram convolution = compiled(R"(
func.func public @main(%x: tensor<2x17x19x8xf32>, %w: tensor<3x5x8x16xf32>) -> tensor<2x9x18x16xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [2, 1], pad = [[1, 1], [1, 2]], rhs_dilate = [1, 1]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x17x19x8xf32>, tensor<3x5x8x16xf32>) -> tensor<2x9x18x16xf32>
  return %y : tensor<2x9x18x16xf32>
})",
                                          flops);
  EXPECT_GT(products(convolution), 0);
  EXPECT_EQ(products(convolution), flops);
}

constexpr const char* kLoop = R"(
func.func public @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<9> : tensor<i32>
  %first = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %last, %y = stablehlo.while(%i = %zero, %v = %first) : tensor<i32>, tensor<64x64xf32>
    cond {
      %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %p = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0]
          : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %next, %p : tensor<i32>, tensor<64x64xf32>
    }
  return %y : tensor<64x64xf32>
})";

TEST_F(HloRunsTest, ALoopMultipliesWhatXlaCountsOnce) {
  double flops = 0;
  const HloProgram program = compiled(kLoop, flops);
  EXPECT_DOUBLE_EQ(loop_factor(program).factor, (1.0 + 9.0) / 2);
  EXPECT_FALSE(loop_factor(program).at_least);
  EXPECT_LT(flops, 2.1 * 2 * 64 * 64 * 64);  // which is why the factor is needed
}

// A compiler that does not note how long a loop is leaves the bound in its condition.
TEST_F(HloRunsTest, TheBoundOfALoopStandsInItsCondition) {
  double flops = 0;
  HloProgram program = compiled(kLoop, flops);
  int loops = 0;
  for (HloComputation& computation : program.computations)
    for (HloInstruction& instruction : computation.instructions)
      if (instruction.opcode == "while") {
        EXPECT_EQ(instruction.trip_count, 9);
        instruction.trip_count.reset();
        ++loops;
      }
  ASSERT_EQ(loops, 1);
  EXPECT_DOUBLE_EQ(loop_factor(program).factor, (1.0 + 9.0) / 2);
  EXPECT_FALSE(loop_factor(program).at_least);
  bool at_least = false;
  for (const HloRuns& runs : runs_of(program)) at_least = at_least || runs.at_least;
  EXPECT_TRUE(at_least);
}

TEST_F(HloRunsTest, DamagedProductsAreAnErrorOfOurs) {
  const OptimizedProgram whole = compile(testing_support::cpu_client(1), kLoop, {}).compiled().optimized();
  std::mt19937 random(2);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    OptimizedProgram damaged = whole;
    for (int i = 0; i < 1 + round % 3; ++i)
      damaged.code[random() % damaged.code.size()] = static_cast<char>(random() & 255u);
    try {
      loop_factor(read_hlo_program(damaged));
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::E3201) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

/// A product by itself, and one in a loop whose condition has no constant: its bound is carried.
HloProgram with_loop(std::optional<int64_t> trips) {
  const auto product = [](const char* name) {
    HloInstruction instruction{.name = name, .opcode = "dot"};
    instruction.flops = 10;
    return instruction;
  };
  HloInstruction loop{.name = "while.1", .opcode = "while"};
  loop.called = {1, 2};
  loop.trip_count = trips;
  HloInstruction condition{.name = "compare.1", .opcode = "compare"};
  condition.is_less_than = true;
  return {.name = "with_loop",
          .entry = 3,
          .computations = {{.id = 1, .name = "body", .instructions = {product("dot.1")}},
                           {.id = 2, .name = "condition", .instructions = {condition}},
                           {.id = 3, .name = "main", .instructions = {product("dot.2"), loop}}}};
}

TEST(LoopFactorTest, ALoopThatCarriesItsBoundIsTakenOnceAndSaidToBeShort) {
  const LoopFactor carried = loop_factor(with_loop(std::nullopt));
  EXPECT_DOUBLE_EQ(carried.factor, 1);
  EXPECT_TRUE(carried.at_least);
  const LoopFactor noted = loop_factor(with_loop(7));
  EXPECT_DOUBLE_EQ(noted.factor, (1.0 + 7.0) / 2);
  EXPECT_FALSE(noted.at_least);
}

TEST(LoopFactorTest, ALoopWithoutProductsSaysNothingOfThem) {
  HloProgram program = with_loop(std::nullopt);
  program.computations[0].instructions[0].flops = 0;
  EXPECT_FALSE(loop_factor(program).at_least);
}

// A million tokens have millions of pairs of blocks, times blocks, times micro-steps.
TEST(LoopFactorTest, WhatRunsTooOftenToBeCountedIsNoDamage) {
  const HloProgram program = with_loop(2 * kMostRuns);
  EXPECT_EQ(runs_of(program)[0].count, kMostRuns);
  EXPECT_TRUE(runs_of(program)[0].at_least);
  EXPECT_TRUE(loop_factor(program).at_least);
  EXPECT_THROW(runs_of(with_loop(-1)), base::Error);
}

TEST(HloProductTest, MeetingsAreCountedAsOneByOne) {
  const auto one_by_one = [](const WindowDim& window, int64_t input, int64_t output) {
    int64_t met = 0;
    for (int64_t o = 0; o < output; ++o)
      for (int64_t k = 0; k < window.size; ++k) {
        const int64_t at = o * window.stride - window.padding_low + k * window.window_dilation;
        if (at >= 0 && at % window.base_dilation == 0 && at / window.base_dilation < input) ++met;
      }
    return met;
  };
  std::mt19937 random(7);
  const auto up_to = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (int round = 0; round < 3000; ++round) {
    const WindowDim window{.size = 1 + up_to(6),
                           .stride = 1 + up_to(4),
                           .padding_low = up_to(9) - 4,
                           .window_dilation = 1 + up_to(3),
                           .base_dilation = 1 + up_to(3)};
    const int64_t input = 1 + up_to(12), output = 1 + up_to(12);
    EXPECT_EQ(window_products(window, input, output), one_by_one(window, input, output)) << "round " << round;
  }
}

// Going through the places of such a window would take minutes.
TEST(HloProductTest, AWindowAsLongAsTheSequenceIsCountedByItsOutput) {
  const int64_t sequence = int64_t{1} << 31, kernel = 4;
  EXPECT_EQ(window_products({.size = sequence}, sequence + kernel - 1, kernel), sequence * kernel);
  EXPECT_EQ(window_products({.size = kernel}, sequence + kernel - 1, sequence), sequence * kernel);
}

// A batch of products as the TPU compiler writes it: the batch is a window as wide as itself that meets itself once.
TEST(HloProductTest, ABatchWrittenAsAWindowCountsOnce) {
  const int64_t batch = 64;
  const WindowDim window{
      .size = batch, .stride = batch - 1, .padding_low = 0, .window_dilation = 1, .base_dilation = batch};
  EXPECT_EQ(window_products(window, batch, batch), batch);
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
