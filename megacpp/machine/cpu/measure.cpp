// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/measure.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cpu/arena.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 9;
constexpr double kSecondsOfTurn = 0.03;          // of each kind of work
constexpr int64_t kRowsPerThread = 1024;         // tokens of a batch
constexpr int64_t kMostRows = int64_t{1} << 16;  // where there are many threads
constexpr int64_t kWidth = 256;                  // of a block
constexpr int64_t kSequence = 256, kHeads = 4, kHead = 32, kState = 32, kMeasuredChunk = 64;

/// One node of an op by itself, over f32 tensors with the layout they have in a chip's memory.
class LoneNode {
 public:
  LoneNode(std::string_view op, const ops::Types& operands, const ir::Attrs& attrs, base::ThreadPool& pool)
      : pool_(pool) {
    const ops::OpDef& def = ops::op_def(op);
    const Kernel* kernel = find_kernel(op);
    MEGACPP_CHECK(kernel != nullptr) << "no kernel of " << op;
    const ops::Types results = def.infer(operands, attrs);
    const ops::NodeView view{operands, results, attrs};
    flops_ = def.cost(view).flops;
    prepared_ = kernel->prepare(view, pool.size());
    for (const ops::Types* types : {&operands, &results})
      for (const ir::TensorType& type : *types) bytes_ += static_cast<double>(type.bytes());
    for (const ir::TensorType& type : operands) {
      operands_.push_back(allocate(type.bytes()));
      std::fill_n(reinterpret_cast<float*>(operands_.back()), type.elements(), 0.01F);
    }
    for (const ir::TensorType& type : results) results_.push_back(allocate(type.bytes()));
    workspace_ = allocate(prepared_.workspace_bytes);
  }

  void run() const { prepared_.run({operands_, results_, workspace_, pool_}); }
  double flops() const { return flops_; }
  double bytes() const { return bytes_; }  // of operands and results

 private:
  std::byte* allocate(int64_t bytes) {
    return arenas_.emplace_back(std::make_unique<Arena>(aligned(std::max<int64_t>(1, bytes))))->at(0);
  }

  base::ThreadPool& pool_;
  Prepared prepared_;
  double flops_ = 0, bytes_ = 0;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::byte*> operands_, results_;
  std::byte* workspace_ = nullptr;
};

/// Nodes of one kind of work, run one after the other.
class Kind {
 public:
  explicit Kind(base::ThreadPool& pool) : pool_(pool) {}

  void add(std::string_view op, const ops::Types& operands, const ir::Attrs& attrs) {
    nodes_.push_back(std::make_unique<LoneNode>(op, operands, attrs, pool_));
    nodes_.back()->run();  // warms caches and threads
  }
  void take_turn() {
    const auto start = Clock::now();
    int runs = 0;
    double spent = 0;
    for (; spent < kSecondsOfTurn; ++runs) {
      for (const auto& node : nodes_) node->run();
      spent = std::chrono::duration<double>(Clock::now() - start).count();
    }
    turns_.push_back(spent / runs);
  }
  /// Amounts of all nodes together, per second.
  double per_second(double (LoneNode::*amount)() const) const {
    double all = 0;
    for (const auto& node : nodes_) all += (*node.*amount)();
    std::vector<double> turns = turns_;
    std::ranges::sort(turns);
    static_assert(kTurns % 2 == 1);
    return all / turns[kTurns / 2];
  }

 private:
  base::ThreadPool& pool_;
  std::vector<std::unique_ptr<LoneNode>> nodes_;
  std::vector<double> turns_;
};

ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }

/// The product of a block with a batch of tokens, and the gradient of its weight.
void add_products(Kind& kind, int64_t rows) {
  const ir::TensorType x = f32({rows, kWidth}), weight = f32({kWidth, kWidth});
  const auto contract = [](int64_t lhs, int64_t rhs) {
    return ir::Attrs{{"lhs_contract", std::vector<int64_t>{lhs}},
                     {"rhs_contract", std::vector<int64_t>{rhs}},
                     {"lhs_batch", std::vector<int64_t>{}},
                     {"rhs_batch", std::vector<int64_t>{}}};
  };
  kind.add("dot", {x, weight}, contract(1, 0));
  kind.add("dot", {x, x}, contract(0, 0));
}

/// Attention and state-space products with their gradients: products of short rows, and work beside these.
void add_scans(Kind& kind, int64_t batch) {
  const ir::TensorType q = f32({batch, kSequence, kHeads, kHead}), k = f32({batch, kSequence, kHeads / 2, kHead}),
                       lse = f32({batch, kHeads, kSequence});
  const ir::Attrs causal = {{"scale", 0.125}, {"causal", int64_t{1}}};
  kind.add("attention", {q, k, k}, causal);
  kind.add("attention_grad", {q, k, k, q, lse, q}, causal);
  const ir::TensorType dt = f32({batch, kSequence, kHeads}), a = f32({kHeads}), b = f32({batch, kSequence, 2, kState});
  const ir::Attrs chunked = {{"chunk", kMeasuredChunk}};
  kind.add("ssd", {q, dt, a, b, b}, chunked);
  kind.add("ssd_grad", {q, dt, a, b, b, q}, chunked);
}

/// The elementwise work of training steps: a gate and an optimizer's update.
void add_elementwise(Kind& kind, int64_t rows) {
  constexpr const char* kGate = "in(0,1) in(0,1) logistic(%0) mul(%0,%2) mul(%3,%1) out(%4)";
  constexpr const char* kUpdate =
      "in(0,1) in(0,1) const(0.9) mul(%1,%2) const(0.1) mul(%0,%4) add(%3,%5) in(0,1) const(0.95) mul(%7,%8) "
      "mul(%0,%0) mul(%4,%10) add(%9,%11) sqrt(%12) add(%13,%4) div(%6,%14) in(0,1) mul(%4,%15) sub(%16,%17) out(%6) "
      "out(%12) out(%18)";
  const ir::TensorType x = f32({rows, kWidth});
  const auto add = [&](const char* program, const char* dtypes, size_t operands) {
    kind.add("fused", ops::Types(operands, x), {{"program", program}, {"dtypes", dtypes}, {"shape", x.shape}});
  };
  add(kGate, "f32", 2);
  add(kUpdate, "f32 f32 f32", 4);
}

}  // namespace

hw::HostRates measure_rates(base::ThreadPool& pool) {
  const int64_t rows = std::min(kMostRows, kRowsPerThread * pool.size());
  Kind products(pool), scans(pool), elementwise(pool);
  add_products(products, rows);
  add_scans(scans, rows / kSequence);
  add_elementwise(elementwise, rows);
  for (int turn = 0; turn < kTurns; ++turn)
    for (Kind* const kind : {&products, &scans, &elementwise}) kind->take_turn();
  return {.matrix_flops = products.per_second(&LoneNode::flops),
          .scan_flops = scans.per_second(&LoneNode::flops),
          .bytes_per_second = elementwise.per_second(&LoneNode::bytes)};
}

}  // namespace megacpp::runtime::cpu
