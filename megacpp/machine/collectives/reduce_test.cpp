// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/reduce.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace megacpp::collectives {
namespace {

uint16_t bf16(float number) { return static_cast<uint16_t>(ir::bits_of(ir::DType::bf16, static_cast<double>(number))); }

template <typename T>
std::vector<T> reduced(ir::DType dtype, Reduction reduction, const std::vector<std::vector<T>>& operands,
                       int64_t offset = 0) {
  std::vector<const void*> pointers;
  for (const auto& operand : operands) pointers.push_back(operand.data() + offset);
  std::vector<T> out(operands[0].size() - static_cast<size_t>(offset));
  reduce({.dtype = dtype,
          .reduction = reduction,
          .operands = pointers,
          .count = static_cast<int64_t>(out.size()),
          .out = out.data()});
  return out;
}

TEST(ReduceTest, OperandsAreAddedInTheOrderGiven) {
  // (1e8 - 1e8) + 1 is 1, but (1 + 1e8) - 1e8 is 0.
  const std::vector<float> one(2500, 1.0f), big(2500, 1e8f), minus_big(2500, -1e8f);
  EXPECT_EQ(reduced<float>(ir::DType::f32, Reduction::sum, {big, minus_big, one}, 7), std::vector<float>(2493, 1.0f));
  EXPECT_EQ(reduced<float>(ir::DType::f32, Reduction::sum, {one, big, minus_big}, 7), std::vector<float>(2493, 0.0f));
}

TEST(ReduceTest, Bf16IsRoundedOnceAfterTheSum) {
  // 256 + 1 rounds to 256 in bf16, so that adding eight ones one by one would lose them all.
  std::vector<std::vector<uint16_t>> operands(9, {bf16(1.0f)});
  operands[0] = {bf16(256.0f)};
  EXPECT_EQ(reduced(ir::DType::bf16, Reduction::sum, operands), std::vector<uint16_t>{bf16(264.0f)});
}

// As processes do it: each reduces its own, the last one adds what the others have, from an address of any kind.
TEST(ReduceTest, PartialReductionsAreRoundedWithTheirSumAlone) {
  const std::vector<uint16_t> big(2500, bf16(256.0f)), one(2500, bf16(1.0f));
  std::vector<std::byte> partial(2500 * sizeof(float) + 1);
  const std::vector<const void*> there = {big.data(), one.data()}, here = {one.data(), one.data()},
                                 partials = {partial.data() + 1};
  reduce({.dtype = ir::DType::bf16, .operands = there, .count = 2500, .out = partial.data() + 1, .is_partial = true});
  std::vector<uint16_t> out(2500);
  reduce({.dtype = ir::DType::bf16, .operands = here, .partials = partials, .count = 2500, .out = out.data()});
  // 259 lies between two numbers of bf16; 256 + 1 alone would have been 256, and the sum 258.
  EXPECT_EQ(out, std::vector<uint16_t>(2500, bf16(259.0f)));
  EXPECT_NE(out.front(), bf16(258.0f));
}

TEST(ReduceTest, IntegersWrapAndPredicatesMeanAny) {
  const int32_t most = std::numeric_limits<int32_t>::max(), least = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(reduced<int32_t>(ir::DType::i32, Reduction::sum, {{most}, {1}}), std::vector<int32_t>{least});
  EXPECT_EQ(reduced<int32_t>(ir::DType::i32, Reduction::max, {{-5}, {3}, {-7}}), std::vector<int32_t>{3});
  EXPECT_EQ(reduced<uint8_t>(ir::DType::pred, Reduction::max, {{0, 1, 0}, {0, 0, 1}}), (std::vector<uint8_t>{0, 1, 1}));
}

TEST(ReduceTest, TheResultMayReplaceAnyOperand) {
  for (const size_t replaced : {0u, 1u, 2u}) {
    std::vector<std::vector<float>> operands(3, std::vector<float>(3000));
    std::vector<float> wanted(3000);
    for (size_t i = 0; i < 3000; ++i) {
      for (size_t k = 0; k < 3; ++k) operands[k][i] = static_cast<float>(i * (k + 1)) * 0.1f;
      wanted[i] = operands[0][i] + operands[1][i] + operands[2][i];
    }
    const std::vector<const void*> pointers = {operands[0].data(), operands[1].data(), operands[2].data()};
    reduce({.operands = pointers, .count = 3000, .out = operands[replaced].data()});
    EXPECT_EQ(operands[replaced], wanted);
  }
}

}  // namespace
}  // namespace megacpp::collectives
