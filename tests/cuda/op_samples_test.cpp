// SPDX-License-Identifier: Apache-2.0
// Every sample of every op on a GPU against the op's reference: by its own kernel, and decomposed and fused as a
// program would run it; with f32 and with bf16 tensors; twice, to the bit. Results are poisoned before a kernel runs,
// operands, results and workspace have exactly their planned size, with a guard behind each.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/gpu.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/evaluator.h"
#include "tests/cuda/tensor_core_cases.h"
#include "tests/cuda/vector_cases.h"
#include "tests/support/conformance_cases.h"
#include "tests/support/sample_cases.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cuda {
namespace {

using ops::Tensor;
using testing_support::ConformanceCase;
using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;
using testing_support::replaceable_operands;

constexpr double kSampleTolerance = 2e-5;  // relative, in f32
constexpr size_t kSampleMemory = size_t{256} << 20;
constexpr size_t kSampleGuard = 256;
constexpr auto kGuardByte = std::byte{0xA5};
constexpr auto kPoisonByte = std::byte{0xFF};  // NaN as f32 and as bf16

/// The GPU of this machine, or why it has none that serves.
struct RealGpu {
  std::shared_ptr<Gpu> gpu = {};
  std::unique_ptr<Borrowed> memory = {};
  std::string why_not = {};
};

const RealGpu& real_gpu() {
  static const RealGpu& found = *[] {
    auto* const here = new RealGpu;  // stays: what the driver started is not undone
    const base::Decision usable = backend_named("cuda").usable({});
    here->why_not = usable.reason();
    if (!usable) return here;
    const Gpu::Options options{.ordinal = 0, .libraries = {}, .find_cubin = embedded_cubin};
    here->gpu = std::make_shared<Gpu>(open_driver(driver_place({})), options);
    here->memory = here->gpu->toolbox().borrow(static_cast<int64_t>(kSampleMemory));
    if (!here->memory) here->why_not = "the GPU has no free memory";
    return here;
  }();
  return found;
}

/// What a kernel's memory holds before it runs, as one piece of the device's: tensors with a guard behind each.
class Image {
 public:
  struct Piece {
    size_t offset;
    size_t bytes;
  };

  Piece add(size_t bytes) {
    const Piece piece{bytes_.size(), bytes};
    const size_t aligned = static_cast<size_t>(kAlignment);
    const size_t end = (piece.offset + bytes + kSampleGuard + aligned - 1) / aligned * aligned;
    bytes_.resize(end, kGuardByte);
    std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(piece.offset), bytes, kPoisonByte);
    pieces_.push_back(piece);
    return piece;
  }
  Piece add(const Tensor& tensor) {
    const Piece piece = add(static_cast<size_t>(tensor.type.bytes()));
    encode(tensor, bytes_.data() + piece.offset);
    return piece;
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::byte* at(const Piece& piece) const { return bytes_.data() + piece.offset; }
  Address address(const Piece& piece) const { return real_gpu().memory->address() + piece.offset; }

  void upload() const {
    ASSERT_LE(bytes_.size(), kSampleMemory);
    const Gpu& gpu = *real_gpu().gpu;
    gpu.driver().memcpy_to_device_async(real_gpu().memory->address(), bytes_.data(), bytes_.size(),
                                        gpu.toolbox().stream());
    gpu.driver().stream_synchronize(gpu.toolbox().stream());
  }
  void download() {
    const Gpu& gpu = *real_gpu().gpu;
    gpu.driver().memcpy_to_host_async(bytes_.data(), real_gpu().memory->address(), bytes_.size(),
                                      gpu.toolbox().stream());
    gpu.driver().stream_synchronize(gpu.toolbox().stream());
  }
  /// Whether nothing was written behind any piece.
  bool is_intact() const {
    for (const Piece& piece : pieces_)
      for (size_t i = 0; i < kSampleGuard; ++i)
        if (bytes_[piece.offset + piece.bytes + i] != kGuardByte) return false;
    return true;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Piece> pieces_;
};

struct KernelRun {
  const Kernel& kernel;
  const std::vector<Tensor>& operands;
  const ops::Types& results;
  const ir::Attrs& attrs;
  int in_place = -1;  // the operand whose memory result 0 takes over; -1: none
};

std::vector<Tensor> run_on_gpu(const KernelRun& run) {
  ops::Types types;
  for (const Tensor& operand : run.operands) types.push_back(operand.type);
  const ops::NodeView view{types, run.results, run.attrs};
  const int64_t wanted = run.kernel.workspace_bytes ? run.kernel.workspace_bytes(view) : 0;
  Image image;
  std::vector<Image::Piece> in, out;
  for (const Tensor& operand : run.operands) in.push_back(image.add(operand));
  for (const ir::TensorType& type : run.results) out.push_back(image.add(static_cast<size_t>(type.bytes())));
  const Image::Piece workspace = image.add(static_cast<size_t>(wanted));
  if (run.in_place >= 0) out[0] = in[static_cast<size_t>(run.in_place)];
  std::vector<Address> in_addresses, out_addresses;
  for (const Image::Piece& piece : in) in_addresses.push_back(image.address(piece));
  for (const Image::Piece& piece : out) out_addresses.push_back(image.address(piece));
  const Image before = image;
  image.upload();
  Toolbox& toolbox = real_gpu().gpu->toolbox();
  run.kernel.prepare(view, toolbox)
      .run({in_addresses, out_addresses, wanted > 0 ? image.address(workspace) : 0, toolbox.stream()});
  image.download();
  EXPECT_TRUE(image.is_intact()) << run.kernel.op << " wrote behind a tensor or its workspace of " << wanted
                                 << " bytes";
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_TRUE(static_cast<int>(i) == run.in_place ||
                std::equal(before.at(in[i]), before.at(in[i]) + in[i].bytes, image.at(in[i])))
        << run.kernel.op << " changed operand " << i;
  std::vector<Tensor> tensors;
  for (size_t r = 0; r < out.size(); ++r) tensors.push_back(decode(run.results[r], image.at(out[r])));
  return tensors;
}

// Every node by its kernel, each value in memory of its own.
std::vector<Tensor> run_program(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.values().size());
  size_t input = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::kInputOp) {
      values[node.results[0].index] = inputs[input++];
      continue;
    }
    std::vector<Tensor> operands;
    for (const ir::ValueId operand : node.operands) operands.push_back(values[operand.index]);
    if (node.op == "reshape") {
      values[node.results[0].index] = {graph.type(node.results[0]), operands[0].data};
      continue;
    }
    const Kernel* const kernel = find_kernel(node.op);
    if (kernel == nullptr) {
      ADD_FAILURE() << "neither a kernel nor a decomposition for " << node.op;
      return {};
    }
    const ops::Types types = graph.result_types(node);
    const std::vector<Tensor> results = run_on_gpu({*kernel, operands, types, node.attrs});
    for (size_t r = 0; r < results.size(); ++r) values[node.results[r].index] = results[r];
  }
  std::vector<Tensor> outputs;
  for (const ir::Output& output : graph.outputs()) outputs.push_back(values[output.value.index]);
  return outputs;
}

class CudaOpSamplesTest : public testing::TestWithParam<ConformanceCase> {
 protected:
  void SetUp() override {
    if (!real_gpu().why_not.empty()) GTEST_SKIP() << real_gpu().why_not;
    real_gpu().gpu->attach();
  }

  void expect_reference(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run) {
    const ConformanceCase& c = GetParam();
    const std::vector<Tensor> operands = operands_of(c);
    const std::vector<Tensor> wanted = ops::evaluate_op(c.op->name, operands, c.sample.attrs);
    const std::vector<Tensor> got = run(operands), again = run(operands);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t r = 0; r < wanted.size(); ++r) {
      EXPECT_TRUE(is_close(got[r], wanted[r], c.tolerance)) << "result " << r;
      EXPECT_TRUE(is_close(again[r], got[r], 0.0)) << "repeated, result " << r;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, CudaOpSamplesTest,
                         testing::ValuesIn(testing_support::conformance_cases(kSampleTolerance)),
                         testing_support::sample_case_name<ConformanceCase>);

INSTANTIATE_TEST_SUITE_P(TensorCores, CudaOpSamplesTest, testing::ValuesIn(testing_support::tensor_core_cases()),
                         testing_support::sample_case_name<ConformanceCase>);

INSTANTIATE_TEST_SUITE_P(Vectors, CudaOpSamplesTest, testing::ValuesIn(testing_support::vector_cases()),
                         testing_support::sample_case_name<ConformanceCase>);

TEST_P(CudaOpSamplesTest, OwnKernelEqualsReference) {
  const ConformanceCase& c = GetParam();
  const Kernel* const kernel = find_kernel(c.op->name);
  if (kernel == nullptr) return;  // the other test demands that it runs at all
  const ops::Types results = c.op->infer(c.sample.operands, c.sample.attrs);
  if (kernel->supports && !kernel->supports({c.sample.operands, results, c.sample.attrs})) return;
  expect_reference([&](const std::vector<Tensor>& operands) {
    return run_on_gpu({*kernel, operands, results, c.sample.attrs});
  });
}

TEST_P(CudaOpSamplesTest, LoweredProgramEqualsReference) {
  const ir::Graph graph = lowered_for(cuda_target(), GetParam());
  expect_reference([&](const std::vector<Tensor>& operands) { return run_program(graph, operands); });
}

TEST_P(CudaOpSamplesTest, ResultMayTakeOverItsOperand) {
  const ConformanceCase& c = GetParam();
  const std::vector<Tensor> operands = operands_of(c);
  const ir::Graph graph = lowered_for(cuda_target(), c);
  if (graph.nodes().size() != operands.size() + 1) return;  // a decomposition: its parts are ops of their own
  const ir::Node& node = graph.nodes().back();
  std::vector<Tensor> given;  // in the order the node reads them
  for (const ir::ValueId operand : node.operands) given.push_back(operands[operand.index]);
  const std::vector<Tensor> wanted = ops::evaluate_op(c.op->name, operands, c.sample.attrs);
  const ops::Types results = graph.result_types(node);
  for (const int operand : replaceable_operands(graph, node)) {
    SCOPED_TRACE("operand " + std::to_string(operand));
    const std::vector<Tensor> got = run_on_gpu({*find_kernel(node.op), given, results, node.attrs, operand});
    for (size_t r = 0; r < wanted.size(); ++r) EXPECT_TRUE(is_close(got[r], wanted[r], c.tolerance)) << "result " << r;
  }
}

// Products of experts with SwiGLU inside, of sizes that their kernels take.
class CudaEpilogueTest : public CudaOpSamplesTest {};
INSTANTIATE_TEST_SUITE_P(TensorCores, CudaEpilogueTest, testing::ValuesIn(testing_support::swiglu_cases()),
                         testing_support::sample_case_name<ConformanceCase>);

// Joined ops round where their parts do: a training has the same bits with them and without.
TEST_P(CudaEpilogueTest, HasTheBitsOfTheClusterItReplaces) {
  const ConformanceCase& c = GetParam();
  ASSERT_EQ(lowered_for(cuda_target(), c).nodes().back().op, c.op->name) << "or it is compared with itself";
  schedule::Target apart = cuda_target();
  apart.runs = [runs = apart.runs, joined = c.op->name](std::string_view op, const ops::NodeView& view) {
    return op == joined ? base::Decision::no("it is taken apart") : runs(op, view);
  };
  const std::vector<Tensor> operands = operands_of(c);
  const std::vector<Tensor> wanted = run_program(lowered_for(apart, c), operands);
  const std::vector<Tensor> got = run_program(lowered_for(cuda_target(), c), operands);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t r = 0; r < wanted.size(); ++r) EXPECT_TRUE(is_close(got[r], wanted[r], 0.0)) << "result " << r;
}

// Without a GPU too, so that it is seen everywhere when a kernel declines what it was made for.
TEST(CudaOpCoverageTest, SwigluOfTheKernelsSizesIsOneNode) {
  for (const ConformanceCase& c : testing_support::swiglu_cases()) {
    const ir::Graph graph = lowered_for(cuda_target(), c);
    EXPECT_EQ(graph.nodes().size(), c.sample.operands.size() + 1) << c.op->name << "/" << c.sample.name;
    EXPECT_EQ(graph.nodes().back().op, c.op->name) << c.sample.name;
  }
}

// Without a GPU too: every op of the table is run, by a kernel or taken apart into ops that have one.
TEST(CudaOpCoverageTest, EverySampleLowersToOpsWithKernels) {
  std::vector<ConformanceCase> cases = testing_support::conformance_cases(kSampleTolerance);
  for (ConformanceCase& wide : testing_support::tensor_core_cases()) cases.push_back(std::move(wide));
  for (ConformanceCase& wide : testing_support::vector_cases()) cases.push_back(std::move(wide));
  for (const ConformanceCase& c : cases) {
    const ir::Graph graph = lowered_for(cuda_target(), c);
    for (const ir::Node& node : graph.nodes())
      EXPECT_TRUE(node.op == ir::kInputOp || node.op == "reshape" || find_kernel(node.op) != nullptr)
          << c.op->name << "/" << c.sample.name << " has " << node.op;
  }
}

}  // namespace
}  // namespace megacpp::runtime::cuda
