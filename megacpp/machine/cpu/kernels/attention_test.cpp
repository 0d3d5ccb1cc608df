// SPDX-License-Identifier: Apache-2.0
// attention and attention_grad on shapes the op's samples are too small for: several tiles each way, with positions and
// segments that hide whole tiles, ends of tiles and single scores.
#include <gtest/gtest.h>

#include <array>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/attention_blocks.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/aligned_buffer.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {

Kernel attention_kernel();
Kernel attention_grad_kernel();

namespace {

using ir::DType;
using ir::TensorType;
using ops::Tensor;
using testing_support::AlignedBuffer;
using testing_support::allocate_aligned;
using testing_support::random_tensor;

// A run of consecutive positions.
struct Run {
  int64_t first, length;
};

struct Case {
  std::string name;
  int64_t batch, heads, kv_heads, dim;
  std::vector<Run> queries, keys;
  ir::Attrs mask;
  int64_t document = 0;  // tokens of a document; 0: none
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> all_cases() {
  const ir::Attrs causal = {{"causal", int64_t{1}}};
  const ir::Attrs window = {{"causal", int64_t{1}}, {"window", int64_t{150}}};
  const ir::Attrs sparse = {{"causal", int64_t{1}},
                            {"sparse_block", int64_t{24}},
                            {"sparse_global", int64_t{2}},
                            {"sparse_local", int64_t{3}}};
  return {{"same_run", 1, 2, 1, 4, {{0, 600}}, {{0, 600}}, causal},
          {"earlier_run", 1, 2, 2, 4, {{700, 130}}, {{100, 600}}, causal},
          {"overlapping_run", 2, 4, 1, 3, {{300, 200}}, {{0, 1100}}, causal},
          {"later_run", 1, 1, 1, 4, {{0, 100}}, {{100, 600}}, causal},
          {"zigzag", 1, 2, 1, 4, {{64, 90}, {1500, 90}}, {{0, 300}, {1400, 300}}, causal},
          {"zigzag_window", 1, 2, 1, 4, {{200, 150}, {900, 150}}, {{100, 300}, {800, 300}}, window},
          {"zigzag_sparse", 1, 1, 1, 4, {{200, 150}, {900, 150}}, {{0, 300}, {800, 300}}, sparse},
          {"zigzag_documents", 2, 2, 1, 4, {{200, 150}, {900, 150}}, {{100, 300}, {800, 300}}, causal, 170},
          {"documents_unmasked", 1, 1, 1, 4, {{0, 300}}, {{200, 700}}, {}, 90}};
}

std::vector<int64_t> positions_of(const std::vector<Run>& runs) {
  std::vector<int64_t> positions;
  for (const Run& run : runs)
    for (int64_t i = 0; i < run.length; ++i) positions.push_back(run.first + i);
  return positions;
}

Tensor labels(const ir::Shape& shape, const std::vector<int64_t>& positions, int64_t divisor) {
  Tensor tensor = Tensor::zeros({DType::i32, shape});
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor[i] = static_cast<double>(positions[static_cast<size_t>(i) % positions.size()] / divisor);
  return tensor;
}

std::vector<Tensor> run(const Kernel& kernel, const std::vector<Tensor>& operands, const ops::Types& results,
                        const ir::Attrs& attrs, int threads) {
  ops::Types types;
  std::vector<AlignedBuffer> buffers;
  std::vector<std::byte*> in, out;
  for (const Tensor& operand : operands) {
    types.push_back(operand.type);
    in.push_back(buffers.emplace_back(allocate_aligned(operand.type.bytes())).get());
    testing_support::encode(operand, in.back());
  }
  for (const TensorType& type : results) out.push_back(buffers.emplace_back(allocate_aligned(type.bytes())).get());
  const Prepared prepared = kernel.prepare({types, results, attrs}, threads);
  const AlignedBuffer workspace = allocate_aligned(prepared.workspace_bytes);
  base::ThreadPool pool(threads);
  prepared.run({in, out, workspace.get(), pool});
  std::vector<Tensor> tensors;
  for (size_t r = 0; r < results.size(); ++r) tensors.push_back(testing_support::decode(results[r], out[r]));
  return tensors;
}

class AttentionKernelTest : public testing::TestWithParam<Case> {
 protected:
  AttentionKernelTest() {
    const Case& c = GetParam();
    const std::vector<int64_t> queries = positions_of(c.queries), keys = positions_of(c.keys);
    const auto s = static_cast<int64_t>(queries.size()), t = static_cast<int64_t>(keys.size());
    const TensorType k{DType::f32, {c.batch, t, c.kv_heads, c.dim}};
    operands_ = {random_tensor({DType::f32, {c.batch, s, c.heads, c.dim}}, "q", -2, 2), random_tensor(k, "k", -2, 2),
                 random_tensor(k, "v")};
    attrs_ = c.mask;
    attrs_.set("scale", 0.5);
    attrs_.set("placed", int64_t{1});
    if (c.document > 0) {
      attrs_.set("documents", int64_t{1});
      tokens_ = {labels({c.batch, s}, queries, c.document), labels({c.batch, t}, keys, c.document)};
    }
    tokens_.push_back(labels({s}, queries, 1));
    tokens_.push_back(labels({t}, keys, 1));
  }

  void expect_reference(const Kernel& kernel, std::vector<Tensor> operands) {
    operands.insert(operands.end(), tokens_.begin(), tokens_.end());
    const std::vector<Tensor> wanted = ops::evaluate_op(kernel.op, operands, attrs_);
    ops::Types results;
    for (const Tensor& result : wanted) results.push_back(result.type);
    for (const int threads : {1, 3}) {
      const std::vector<Tensor> got = run(kernel, operands, results, attrs_, threads);
      for (size_t r = 0; r < wanted.size(); ++r)
        EXPECT_TRUE(testing_support::is_close(got[r], wanted[r], 1e-5)) << "result " << r;
    }
  }

  ir::Attrs attrs_;
  std::vector<Tensor> operands_, tokens_;
};
INSTANTIATE_TEST_SUITE_P(Runs, AttentionKernelTest, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST_P(AttentionKernelTest, EqualsTheReference) { expect_reference(attention_kernel(), operands_); }

TEST_P(AttentionKernelTest, GradientEqualsTheReference) {
  std::vector<Tensor> operands = operands_;
  operands.insert(operands.end(), tokens_.begin(), tokens_.end());
  const std::vector<Tensor> results = ops::evaluate_op("attention", operands, attrs_);
  operands = operands_;
  operands.insert(operands.end(), {results[0], results[1], random_tensor(results[0].type, "dout")});
  expect_reference(attention_grad_kernel(), std::move(operands));
}

// Runs as long as a tile of each side, at given positions.
class TokenMaskTest : public testing::Test {
 protected:
  static constexpr int64_t kQueries = 4, kKeys = 6;

  ops::Cover trim(const ops::AttentionMask& mask, std::array<int32_t, kQueries> queries,
                  std::array<int32_t, kKeys> keys) {
    ops::Types types = {{DType::f32, {1, kQueries, 1, 2}}, {DType::f32, {1, kKeys, 1, 2}}};
    const ir::Attrs attrs = {{"placed", int64_t{1}}, {"scale", 1.0}};
    const AttentionSizes sizes({types, types, attrs});
    std::array<std::byte*, 5> in = {nullptr, nullptr, nullptr, reinterpret_cast<std::byte*>(queries.data()),
                                    reinterpret_cast<std::byte*>(keys.data())};
    base::ThreadPool pool(1);
    const TokenMask tokens(mask, ops::TokenOperands::behind(ops::kAttentionOperands, attrs), sizes,
                           {in, {}, nullptr, pool}, 0);
    tile_ = {0, kQueries, 0, kKeys, false};
    return tokens.trim(tile_);
  }

  Tile tile_{};
};

TEST_F(TokenMaskTest, KeysThatNoQueryOfTheTileSeesAreCutOff) {
  const ops::AttentionMask causal{.causal = true}, window{.causal = true, .window = 3};
  EXPECT_EQ(trim(causal, {4, 5, 6, 7}, {8, 9, 10, 11, 12, 13}), ops::Cover::none);
  EXPECT_EQ(trim(causal, {14, 15, 16, 17}, {8, 9, 10, 11, 12, 13}), ops::Cover::all);
  EXPECT_EQ(tile_.width(), 6);
  EXPECT_EQ(trim(causal, {8, 9, 10, 11}, {8, 9, 10, 11, 12, 13}), ops::Cover::some);
  EXPECT_EQ(tile_.width(), 4);
  EXPECT_EQ(trim(causal, {10, 11, 12, 13}, {2, 3, 4, 20, 21, 22}), ops::Cover::all) << "what is left is visible";
  EXPECT_EQ(tile_.width(), 3);
  EXPECT_EQ(trim(window, {10, 11, 12, 13}, {6, 7, 8, 9, 10, 11}), ops::Cover::some);
  EXPECT_EQ(tile_.key_begin, 2);
  EXPECT_EQ(trim(window, {20, 21, 22, 23}, {6, 7, 8, 9, 10, 11}), ops::Cover::none);
}

}  // namespace
}  // namespace megacpp::runtime::cpu
