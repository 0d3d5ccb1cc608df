// SPDX-License-Identifier: Apache-2.0
// SwiGLU inside its products beside products and clusters one after the other, on the GPU of this machine, at the sizes
// of bench/recipes. Both ways run in turn, on random data, so that clocks and power are the same for both.
// usage: swiglu_rate [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "megacpp/ops/builder.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/cuda/cuda_backend.h"
#include "megacpp/runtime/cuda/gpu.h"
#include "megacpp/runtime/cuda/kernel.h"
#include "megacpp/schedule/decompose.h"
#include "megacpp/schedule/fuse.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kRepeats = 10;       // of a program in one timing
constexpr int kDefaultRounds = 7;  // timings of each way

struct RateCase {
  std::string name;
  std::string op;
  ops::Types operands;
  ir::Attrs attrs;
};

ir::TensorType bf16_type(ir::Shape shape) { return {ir::DType::bf16, std::move(shape)}; }

// hybrid-2b: 32,768 tokens with two of eight experts each.
std::vector<RateCase> rate_cases() {
  const ir::TensorType rows = bf16_type({8, 1, 8192, 2048}), inner = bf16_type({8, 1, 8192, 4096});
  const ir::TensorType into = bf16_type({8, 2048, 4096}), down = bf16_type({8, 4096, 2048});
  const ir::TensorType counts{ir::DType::i32, {8, 1, 8}};
  return {{"experts forward", "ragged_swiglu", {rows, into, into, counts}, {{"keep_products", int64_t{1}}}},
          {"experts forward, h alone", "ragged_swiglu", {rows, into, into, counts}, {{"keep_products", int64_t{0}}}},
          {"experts backward", "ragged_swiglu_grad", {rows, down, counts, inner, inner}, {{"make_h", int64_t{0}}}},
          {"experts backward, h again",
           "ragged_swiglu_grad",
           {rows, down, counts, inner, inner},
           {{"make_h", int64_t{1}}}}};
}

// The op as the compiler hands it to the backend: whole, or taken apart.
ir::Graph program_of(const RateCase& one, bool whole) {
  schedule::Target target = cuda_target();
  if (!whole)
    target.runs = [runs = target.runs, joined = one.op](std::string_view op, const ops::NodeView& view) {
      return op == joined ? base::Decision::no("it is taken apart") : runs(op, view);
    };
  ir::Graph graph(one.name);
  ops::Builder builder(graph);
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < one.operands.size(); ++i)
    operands.push_back(builder.input("x" + std::to_string(i), one.operands[i], ir::Role::batch));
  const std::vector<ir::ValueId> results = builder.node(one.op, operands, one.attrs);
  for (size_t r = 0; r < results.size(); ++r) graph.add_output({.name = std::to_string(r), .value = results[r]});
  return schedule::lower_elementwise(schedule::fuse(schedule::decompose(graph, target).graph));
}

// A program with memory of its own for every value.
class LoadedProgram {
 public:
  LoadedProgram(ir::Graph graph, const Gpu& gpu) : graph_(std::move(graph)), gpu_(gpu) {
    int64_t bytes = 0;
    const auto book = [&bytes](int64_t more) {
      const int64_t at = bytes;
      bytes += (more + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    std::vector<int64_t> values, workspaces;
    for (const ir::Value& value : graph_.values()) values.push_back(book(value.type.bytes()));
    for (const ir::Node& node : graph_.nodes()) workspaces.push_back(book(workspace_bytes(node)));
    memory_ = gpu.toolbox().borrow(bytes);
    if (!memory_) throw std::runtime_error(fmt::format("the GPU has no {} bytes left", bytes));
    for (const int64_t at : values) values_.push_back(memory_->address() + static_cast<Address>(at));
    for (const int64_t at : workspaces) workspaces_.push_back(memory_->address() + static_cast<Address>(at));
    for (const ir::Node& node : graph_.nodes()) prepare(node);
  }

  void fill_inputs() const {
    std::mt19937 random(1);
    for (const ir::Node& node : graph_.nodes())
      if (node.op == ir::kInputOp) fill(node.results[0], random);
  }

  double seconds() const {
    return gpu_.toolbox().seconds_of([this](Stream* stream) {
      for (int i = 0; i < kRepeats; ++i) run(stream);
    }) / kRepeats;
  }

 private:
  struct Step {
    Prepared prepared;
    std::vector<Address> operands, results;
    Address workspace;
  };

  int64_t workspace_bytes(const ir::Node& node) const {
    if (node.op == ir::kInputOp) return 0;
    const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
    const Kernel* const kernel = find_kernel(node.op);
    return kernel->workspace_bytes ? kernel->workspace_bytes({operands, results, node.attrs}) : 0;
  }

  void prepare(const ir::Node& node) {
    if (node.op == ir::kInputOp) return;
    const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
    Step step{.prepared = find_kernel(node.op)->prepare({operands, results, node.attrs}, gpu_.toolbox()),
              .operands = {},
              .results = {},
              .workspace = workspaces_[static_cast<size_t>(&node - graph_.nodes().data())]};
    for (const ir::ValueId value : node.operands) step.operands.push_back(values_[value.index]);
    for (const ir::ValueId value : node.results) step.results.push_back(values_[value.index]);
    steps_.push_back(std::move(step));
  }

  // Counts with some unevenness, which all rows of a chunk are of; normal numbers elsewhere, small enough for silu.
  void fill(ir::ValueId value, std::mt19937& random) const {
    const ir::TensorType& type = graph_.type(value);
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    if (type.dtype == ir::DType::i32) {
      const int64_t experts = type.dim(-1), each = 8192 / experts;
      int32_t* const counts = reinterpret_cast<int32_t*>(bytes.data());
      for (int64_t i = 0; i < type.elements(); ++i)
        counts[i] = static_cast<int32_t>(each + (i % 2 == 0 ? 37 : -37) * (i % experts / 2 % 2 == 0 ? 1 : -3));
    } else {
      std::normal_distribution<float> normal(0, 0.05F);
      std::vector<uint16_t> block(size_t{1} << 20);
      for (uint16_t& word : block) word = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
      for (size_t at = 0; at < bytes.size(); at += 2 * block.size())
        std::copy_n(reinterpret_cast<const std::byte*>(block.data()), std::min(2 * block.size(), bytes.size() - at),
                    bytes.data() + at);
    }
    Stream* const stream = gpu_.toolbox().stream();
    gpu_.driver().memcpy_to_device_async(values_[value.index], bytes.data(), bytes.size(), stream);
    gpu_.driver().stream_synchronize(stream);
  }

  void run(Stream* stream) const {
    for (const Step& step : steps_) step.prepared.run({step.operands, step.results, step.workspace, stream});
  }

  const ir::Graph graph_;
  const Gpu& gpu_;
  std::unique_ptr<Borrowed> memory_;
  std::vector<Address> values_, workspaces_;
  std::vector<Step> steps_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const RateCase& one, const Gpu& gpu, int rounds) {
  std::vector<std::unique_ptr<LoadedProgram>> ways;
  for (const bool whole : {false, true}) {
    ways.push_back(std::make_unique<LoadedProgram>(program_of(one, whole), gpu));
    ways.back()->fill_inputs();
    ways.back()->seconds();  // loads what is loaded at the first launch
  }
  std::vector<double> seconds[2];
  for (int round = 0; round < rounds; ++round)
    for (size_t way = 0; way < 2; ++way) seconds[way].push_back(ways[way]->seconds());
  const ops::OpDef& op = ops::op_def(one.op);
  const ops::Types results = op.infer(one.operands, one.attrs);
  const double flops = op.cost({one.operands, results, one.attrs}).flops;
  const double apart = median(seconds[0]), whole = median(seconds[1]);
  fmt::print("{:<28}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.0f}\n", one.name, 1e3 * apart, 1e3 * whole, apart / whole,
             flops / whole / 1e12);
}

int run_all(int rounds) {
  const base::Decision usable = backend_named("cuda").usable({});
  if (!usable) {
    fmt::print(stderr, "swiglu_rate: {}\n", usable.reason());
    return 1;
  }
  const Gpu gpu(open_driver(driver_place({})), {.ordinal = 0, .libraries = {}, .find_cubin = embedded_cubin});
  gpu.attach();
  fmt::print("{:<28}{:>10}{:>10}{:>10}{:>10}\n", "", "apart ms", "joined ms", "ratio", "TF/s");
  for (const RateCase& one : rate_cases()) measure(one, gpu, rounds);
  return 0;
}

}  // namespace
}  // namespace megacpp::runtime::cuda

int main(int argc, char** argv) {
  return megacpp::runtime::cuda::run_all(argc > 1 ? std::max(1, std::atoi(argv[1]))
                                                  : megacpp::runtime::cuda::kDefaultRounds);
}
