// SPDX-License-Identifier: Apache-2.0
// On a GPU: the clusters of an update as joined launches, against each by itself, to the bit and with nothing else
// touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/core/base/philox.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/tile_batch.h"
#include "tests/support/gpu_here.h"
#include "tests/support/gpu_test.h"

namespace megacpp::runtime::cuda {
namespace {

using testing_support::gpu_here;

constexpr ir::DType kF32 = ir::DType::f32;

// Operands: gradient, clipping, both moments, their corrections, weight, learning rate; results in place of the
// moments and the weight.
const char* const kAdamW =
    "in(0) in() mul(%0,%1) in(0) const(0.9) mul(%3,%4) const(0.1) mul(%2,%6) add(%5,%7) in(0) const(0.95) mul(%9,%10) "
    "mul(%2,%2) const(0.05) mul(%12,%13) add(%11,%14) in() mul(%15,%16) sqrt(%17) const(1e-8) add(%18,%19) in() "
    "mul(%8,%21) div(%22,%20) in(0) const(0.1) mul(%24,%25) add(%23,%26) in() mul(%27,%28) sub(%24,%29) out(%8) "
    "out(%15) out(%30)";
const char* const kSquares = "in(0) mul(%0,%0) sum(%1;1)";

/// Tensors one behind the other in one piece of the device's memory, as an arena has them.
class Update {
 public:
  explicit Update(const std::vector<int64_t>& sizes) {
    const int64_t scalars = take(4);
    for (const int64_t size : sizes) {
      const int64_t gradient = take(size), first = take(size), second = take(size), weight = take(size);
      const ir::TensorType vector{kF32, {size}}, scalar{kF32, {}};
      nodes_.push_back({.operands = {vector},
                        .attrs = attrs_of(size, kSquares, "f32"),
                        .in = {gradient},
                        .out = {take(1)},
                        .workspace = take(1024)});
      nodes_.push_back({.operands = {vector, scalar, vector, vector, scalar, scalar, vector, scalar},
                        .attrs = attrs_of(size, kAdamW, "f32 f32 f32"),
                        .in = {gradient, scalars, first, second, scalars + 4, scalars + 8, weight, scalars + 12},
                        .out = {first, second, weight}});
    }
    const base::Philox random(5, "joined");
    values_.resize(static_cast<size_t>(bytes_) / sizeof(float));
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(0.1 + random.uniform(i));
  }

  int64_t bytes() const { return bytes_; }

  /// Words that are no node's result or partial sum and are not what they were before.
  size_t count_changed(const std::vector<float>& held) const {
    std::vector<bool> is_free(values_.size(), false);  // to change
    const auto free = [&is_free](int64_t offset, int64_t bytes) {
      const auto begin = is_free.begin() + offset / 4;
      std::fill(begin, begin + bytes / 4, true);
    };
    for (const Node& node : nodes_) {
      const ops::Types results = results_of(node);
      for (size_t r = 0; r < results.size(); ++r) free(node.out[r], results[r].bytes());
      free(node.workspace, find_kernel("fused")->workspace_bytes({node.operands, results, node.attrs}));
    }
    size_t changed = 0;
    for (size_t i = 0; i < held.size(); ++i) changed += !is_free[i] && held[i] != values_[i] ? 1 : 0;
    return changed;
  }

  /// All that is there behind the work.
  std::vector<float> run(Address base, bool joined) const {
    const Gpu& gpu = *gpu_here().gpu;
    Toolbox& toolbox = gpu.toolbox();
    std::vector<float> held = values_;
    gpu.driver().memcpy_to_device_async(base, held.data(), static_cast<size_t>(bytes_), toolbox.stream());
    LaunchList list;
    for (const Node& node : nodes_) list.add(bound(node, base));
    const std::vector<std::function<void()>> launches = list.take(toolbox, toolbox.stream());
    EXPECT_EQ(launches.size(), 2U) << "the squares of all, and the updates of all";
    if (joined)
      for (const auto& launch : launches) launch();
    else
      for (const Node& node : nodes_) bound(node, base).run();
    gpu.driver().memcpy_to_host_async(held.data(), base, static_cast<size_t>(bytes_), toolbox.stream());
    gpu.driver().stream_synchronize(toolbox.stream());
    return held;
  }

 private:
  struct Node {
    ops::Types operands;
    ir::Attrs attrs;
    std::vector<int64_t> in, out;  // offsets, bytes
    int64_t workspace = 0;
  };

  static ir::Attrs attrs_of(int64_t size, const char* program, const char* dtypes) {
    return {{"shape", ir::Shape{size}}, {"program", std::string(program)}, {"dtypes", std::string(dtypes)}};
  }

  /// With a guard behind: nothing may be written there.
  int64_t take(int64_t elements) {
    const int64_t offset = bytes_;
    bytes_ += (elements * 4 + kAlignment) / kAlignment * kAlignment;
    return offset;
  }

  static BoundTile bound(const Node& node, Address base) {
    const ops::Types results = results_of(node);
    const ops::NodeView view{node.operands, results, node.attrs};
    const Kernel& kernel = *find_kernel("fused");
    Toolbox& toolbox = gpu_here().gpu->toolbox();
    const auto places = [base](const std::vector<int64_t>& offsets) {
      std::vector<Address> addresses;
      for (const int64_t offset : offsets) addresses.push_back(base + static_cast<Address>(offset));
      return addresses;
    };
    const std::vector<Address> in = places(node.in), out = places(node.out), workspace = places({node.workspace});
    return bind_tile(kernel.prepare(view, toolbox), view, kernel.workspace_bytes(view),
                     {in, out, workspace[0], toolbox.stream()});
  }

  static ops::Types results_of(const Node& node) { return ops::op_def("fused").infer(node.operands, node.attrs); }

  std::vector<Node> nodes_;
  int64_t bytes_ = 0;
  std::vector<float> values_;
};

class JoinedLaunchesTest : public testing_support::GpuTest {};

TEST_F(JoinedLaunchesTest, AnUpdateOfManyTensorsHasTheBitsOfEachAlone) {
  if (!gpu_here().gpu) GTEST_SKIP() << gpu_here().why_not;
  gpu_here().gpu->attach();
  const Update update({2048, 1 << 20, 4096, 3 * 1028, 1 << 22, 2052, 5 << 16});
  const std::unique_ptr<Borrowed> memory = gpu_here().gpu->toolbox().borrow(update.bytes());
  ASSERT_TRUE(memory);
  const std::vector<float> alone = update.run(memory->address(), false), joined = update.run(memory->address(), true);
  size_t differing = 0;
  for (size_t i = 0; i < alone.size(); ++i)
    differing += std::bit_cast<uint32_t>(alone[i]) == std::bit_cast<uint32_t>(joined[i]) ? 0 : 1;
  EXPECT_EQ(differing, 0U) << "of " << alone.size();
  EXPECT_EQ(update.count_changed(joined), 0U) << "guards and what is only read";
  EXPECT_EQ(update.run(memory->address(), true), joined) << "repeated";
}

}  // namespace
}  // namespace megacpp::runtime::cuda
