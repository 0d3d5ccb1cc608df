// SPDX-License-Identifier: Apache-2.0
// Every sample of every op on the CPU backend against the op's reference: by its own kernel, and decomposed and fused
// as a program would run it; on one to three threads; with f32 and with bf16 tensors. Results are poisoned before a
// kernel runs, operands, results and workspace have exactly their planned size, with a guard behind each.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/storage.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/conformance_cases.h"
#include "tests/support/sample_cases.h"
#include "tests/support/tensors.h"

namespace megacpp::runtime::cpu {
namespace {

using ops::OpDef;
using ops::Tensor;
using testing_support::conformance_cases;
using testing_support::ConformanceCase;
using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;
using testing_support::lowered_for;
using testing_support::operands_of;
using testing_support::replaceable_operands;
using testing_support::runs_on_one_chip;

constexpr double kTolerance = 1e-5;  // relative, in f32
constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xA5};
constexpr auto kPoison = std::byte{0xFF};  // NaN as f32 and as bf16

struct AlignedFree {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};

// Memory of exactly the asked size, as kernels get it from the plan.
class Guarded {
 public:
  explicit Guarded(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        memory_(static_cast<std::byte*>(::operator new[](bytes_ + kGuardBytes, std::align_val_t{64}))) {
    std::fill_n(memory_.get(), bytes_, kPoison);
    std::fill_n(memory_.get() + bytes_, kGuardBytes, kGuard);
  }
  std::byte* data() const { return memory_.get(); }
  std::vector<std::byte> bytes() const { return {data(), data() + bytes_}; }
  bool is_intact() const {
    return std::all_of(data() + bytes_, data() + bytes_ + kGuardBytes, [](std::byte b) { return b == kGuard; });
  }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte[], AlignedFree> memory_;
};

// `in_place`: the operand whose memory result 0 takes over; -1: none.
std::vector<Tensor> run_kernel(const Kernel& kernel, const std::vector<Tensor>& operands, const ops::Types& results,
                               const ir::Attrs& attrs, int threads, int in_place = -1) {
  base::ThreadPool pool(threads);
  ops::Types types;
  for (const Tensor& operand : operands) types.push_back(operand.type);
  const Prepared prepared = prepare_any_storage(kernel, {types, results, attrs}, threads);
  std::vector<Guarded> in, out;
  std::vector<std::byte*> in_addresses, out_addresses;
  for (const Tensor& operand : operands) {
    in.emplace_back(operand.type.bytes());
    encode(operand, in.back().data());
    in_addresses.push_back(in.back().data());
  }
  for (const ir::TensorType& type : results) {
    out.emplace_back(type.bytes());
    out_addresses.push_back(out.back().data());
  }
  if (in_place >= 0) out_addresses[0] = in_addresses[static_cast<size_t>(in_place)];
  const Guarded workspace(prepared.workspace_bytes);
  std::vector<std::vector<std::byte>> before;
  for (const Guarded& memory : in) before.push_back(memory.bytes());
  prepared.run({.operands = in_addresses, .results = out_addresses, .workspace = workspace.data(), .pool = pool});
  EXPECT_TRUE(workspace.is_intact()) << kernel.op << " wrote behind its workspace of " << prepared.workspace_bytes
                                     << " bytes";
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_TRUE(in[i].is_intact()) << kernel.op << " wrote behind operand " << i;
    EXPECT_TRUE(static_cast<int>(i) == in_place || in[i].bytes() == before[i]) << kernel.op << " changed operand " << i;
  }
  for (size_t r = 0; r < out.size(); ++r) {
    EXPECT_TRUE(out[r].is_intact()) << kernel.op << " wrote behind result " << r;
    tensors.push_back(decode(results[r], out_addresses[r]));
  }
  return tensors;
}

// Every node by its kernel, each value in memory of its own.
std::vector<Tensor> run_graph(const ir::Graph& graph, const std::vector<Tensor>& inputs, int threads) {
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
    const Kernel* kernel = find_kernel(node.op);
    if (kernel == nullptr) {
      ADD_FAILURE() << "neither a kernel nor a decomposition for " << node.op;
      return {};
    }
    const std::vector<Tensor> results = run_kernel(*kernel, operands, graph.result_types(node), node.attrs, threads);
    for (size_t r = 0; r < results.size(); ++r) values[node.results[r].index] = results[r];
  }
  std::vector<Tensor> outputs;
  for (const ir::Output& output : graph.outputs()) outputs.push_back(values[output.value.index]);
  return outputs;
}

class CpuConformanceTest : public testing::TestWithParam<ConformanceCase> {
 protected:
  void expect_all_close(const std::function<std::vector<Tensor>(const std::vector<Tensor>&, int threads)>& run) {
    const ConformanceCase& c = GetParam();
    const std::vector<Tensor> operands = operands_of(c);
    const std::vector<Tensor> wanted = ops::evaluate_op(c.op->name, operands, c.sample.attrs);
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      const std::vector<Tensor> got = run(operands, threads);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t r = 0; r < wanted.size(); ++r)
        EXPECT_TRUE(is_close(got[r], wanted[r], c.tolerance)) << "result " << r;
      const std::vector<Tensor> again = run(operands, threads);
      for (size_t r = 0; r < wanted.size(); ++r)
        EXPECT_TRUE(is_close(again[r], got[r], 0.0)) << "repeated, result " << r;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, CpuConformanceTest, testing::ValuesIn(conformance_cases(kTolerance)),
                         testing_support::sample_case_name<ConformanceCase>);

TEST_P(CpuConformanceTest, OwnKernelEqualsReference) {
  const ConformanceCase& c = GetParam();
  const Kernel* kernel = find_kernel(c.op->name);
  if (kernel == nullptr) return;  // the other test demands that it runs at all
  ops::Types results = c.op->infer(c.sample.operands, c.sample.attrs);
  if (kernel->supports && !kernel->supports({c.sample.operands, results, c.sample.attrs})) return;
  expect_all_close([&](const std::vector<Tensor>& operands, int threads) {
    return run_kernel(*kernel, operands, results, c.sample.attrs, threads);
  });
}

TEST_P(CpuConformanceTest, LoweredProgramEqualsReference) {
  const ConformanceCase& c = GetParam();
  expect_all_close([&](const std::vector<Tensor>& operands, int threads) {
    return run_graph(lowered_for(cpu_target(threads), c), operands, threads);
  });
}

TEST_P(CpuConformanceTest, ResultMayTakeOverItsOperand) {
  const ConformanceCase& c = GetParam();
  const std::vector<Tensor> operands = operands_of(c);
  const ir::Graph graph = lowered_for(cpu_target(2), c);
  const size_t inputs = operands.size();
  if (graph.nodes().size() != inputs + 1) return;  // a decomposition: its parts are ops of their own
  const ir::Node& node = graph.nodes().back();
  std::vector<Tensor> given;  // in the order the node reads them
  for (const ir::ValueId operand : node.operands) given.push_back(operands[operand.index]);
  const std::vector<Tensor> wanted = ops::evaluate_op(c.op->name, operands, c.sample.attrs);
  for (const int operand : replaceable_operands(graph, node)) {
    SCOPED_TRACE("operand " + std::to_string(operand));
    for (const int threads : {1, 2}) {
      const auto got = run_kernel(*find_kernel(node.op), given, graph.result_types(node), node.attrs, threads, operand);
      for (size_t r = 0; r < wanted.size(); ++r)
        EXPECT_TRUE(is_close(got[r], wanted[r], c.tolerance)) << "result " << r;
    }
  }
}

TEST(CpuConformanceCoverageTest, EveryKernelIsOfAnOpAndListedOnce) {
  std::set<std::string_view> seen;
  for (const Kernel& kernel : all_kernels()) {
    EXPECT_NE(ops::find_op(kernel.op), nullptr) << kernel.op;
    EXPECT_TRUE(seen.insert(kernel.op).second) << kernel.op;
  }
}

TEST(CpuConformanceCoverageTest, SamplesOfEveryOpAreRun) {
  std::set<std::string> ran;
  const std::vector<ConformanceCase> cases = conformance_cases(kTolerance);
  for (const ConformanceCase& c : cases) ran.insert(c.op->name);
  for (const OpDef& op : ops::all_ops()) EXPECT_EQ(ran.contains(op.name), runs_on_one_chip(op)) << op.name;
  RecordProperty("samples", static_cast<int>(cases.size()));
  std::cout << cases.size() << " samples of " << ran.size() << " ops\n";
}

}  // namespace
}  // namespace megacpp::runtime::cpu
