// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/storage.h"

#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kCount = 10000;  // more than one thread's share of the conversion

// Doubles operand 0 plus operand 1 in f32, using some workspace on the way.
Kernel doubling_kernel(bool takes_any_storage) {
  const auto prepare = [takes_any_storage](const ops::NodeView& view, int) {
    const bool wide = view.operands[0].dtype == ir::DType::f32 && view.results[0].dtype == ir::DType::f32;
    EXPECT_EQ(wide, !takes_any_storage) << "what the kernel sees";
    return Prepared{.run =
                        [](const KernelArgs& args) {
                          for (int64_t i = 0; i < kCount; ++i) {
                            args.scratch()[i] = 2.0F * args.in(0)[i];
                            args.out(0)[i] = args.scratch()[i] + static_cast<float>(args.in<int32_t>(1)[i]);
                          }
                        },
                    .workspace_bytes = kCount * 4};
  };
  return {.op = "test", .prepare = prepare, .supports = {}, .takes_any_storage = takes_any_storage};
}

struct Node {
  ops::Types operands, results;
  ir::Attrs attrs = {};
  ops::NodeView view() const { return {operands, results, attrs}; }
};

Node node_of(ir::DType dtype) { return {{{dtype, {kCount}}, {ir::DType::i32, {kCount}}}, {{dtype, {kCount}}}}; }

TEST(StorageTest, NarrowTensorsAreWidenedAroundTheKernel) {
  const Node node = node_of(ir::DType::bf16);
  const Prepared prepared = prepare_any_storage(doubling_kernel(false), node.view(), 2);
  EXPECT_GE(prepared.workspace_bytes, 3 * kCount * 4) << "operand, result and the kernel's own";
  const ops::Tensor a = testing_support::random_tensor(node.operands[0], "a");
  const ops::Tensor b = testing_support::random_tensor(node.operands[1], "b", -5, 5);
  std::vector<std::byte> in0(kCount * 2), in1(kCount * 4), out(kCount * 2),
      workspace(static_cast<size_t>(prepared.workspace_bytes));
  testing_support::encode(a, in0.data());
  testing_support::encode(b, in1.data());
  const std::vector<std::byte*> in = {in0.data(), in1.data()}, results = {out.data()};
  base::ThreadPool pool(2);
  prepared.run({.operands = in, .results = results, .workspace = workspace.data(), .pool = pool});
  const ops::Tensor got = testing_support::decode(node.results[0], out.data());
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(got[i], ir::rounded(ir::DType::bf16, 2 * a[i] + b[i])) << i;
}

TEST(StorageTest, WideTensorsCostNothing) {
  const Node node = node_of(ir::DType::f32);
  EXPECT_EQ(prepare_any_storage(doubling_kernel(false), node.view(), 2).workspace_bytes, kCount * 4);
}

TEST(StorageTest, KernelThatReadsNarrowTensorsGetsThemAsTheyAre) {
  const Node node = node_of(ir::DType::bf16);
  EXPECT_EQ(prepare_any_storage(doubling_kernel(true), node.view(), 2).workspace_bytes, kCount * 4);
}

}  // namespace
}  // namespace megacpp::runtime::cpu
