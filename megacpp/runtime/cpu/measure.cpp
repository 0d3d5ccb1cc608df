// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/measure.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/arena.h"
#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.2;           // for each rate
constexpr double kLongEnough = 0.02;       // of one product, to be measured well
constexpr int64_t kSmallestProduct = 512;  // rows and columns
constexpr int64_t kLargestProduct = 4096;
constexpr int64_t kShortDepth = 32;              // terms
constexpr int64_t kCopied = int64_t{128} << 20;  // bytes: beyond the last cache
constexpr int64_t kSequence = 256, kHead = 64;   // of attention
constexpr int64_t kHeadsPerThread = 2;
constexpr double kLeastShare = 0.01;  // of attention's time, that is not its products'

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest of several runs: what the machine can do when nothing disturbs it.
template <typename Body>
double best_seconds(const Body& body) {
  double best = seconds_of(body);
  for (double spent = best; spent < kSeconds;) {
    const double seconds = seconds_of(body);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

/// A square result whose elements are sums of `depth` products.
struct Product {
  Product(int64_t side, int64_t depth)
      : a(static_cast<size_t>(side * depth), 1.0F),
        b(static_cast<size_t>(side * depth), 0.5F),
        c(static_cast<size_t>(side * side)),
        gemm{.m = side,
             .n = side,
             .k = depth,
             .a = a.data(),
             .lda = depth,
             .b = b.data(),
             .ldb = side,
             .c = c.data(),
             .ldc = side} {}
  Product(const Product&) = delete;  // gemm points into the object
  Product& operator=(const Product&) = delete;

  double flops() const {
    return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  }
  double flops_per_second(base::ThreadPool& pool) const {
    return flops() / best_seconds([&] { parallel_gemm(gemm, pool); });
  }

  std::vector<float> a, b, c;
  Gemm gemm;
};

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
    cost_ = def.cost(view);
    prepared_ = kernel->prepare(view, pool.size());
    for (const ir::TensorType& type : operands) {
      operands_.push_back(allocate(type.bytes()));
      std::fill_n(reinterpret_cast<float*>(operands_.back()), type.elements(), 0.01F);
    }
    for (const ir::TensorType& type : results) results_.push_back(allocate(type.bytes()));
    workspace_ = allocate(prepared_.workspace_bytes);
  }

  void run() const { prepared_.run({operands_, results_, workspace_, pool_}); }
  const ops::Cost& cost() const { return cost_; }

 private:
  std::byte* allocate(int64_t bytes) {
    return arenas_.emplace_back(std::make_unique<Arena>(aligned(std::max<int64_t>(1, bytes))))->at(0);
  }

  base::ThreadPool& pool_;
  Prepared prepared_;
  ops::Cost cost_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::byte*> operands_, results_;
  std::byte* workspace_ = nullptr;
};

}  // namespace

ProductRates measure_products(base::ThreadPool& pool) {
  for (int64_t side = kSmallestProduct;; side *= 2) {
    const Product product(side, side);
    const auto run = [&] { parallel_gemm(product.gemm, pool); };
    run();  // warms caches and threads
    if (seconds_of(run) < kLongEnough && side < kLargestProduct) continue;
    const double peak = product.flops_per_second(pool);
    const double brief = Product(side, kShortDepth).flops_per_second(pool);
    return {peak, static_cast<double>(kShortDepth) * std::max(0.0, peak / brief - 1)};
  }
}

double measure_exponentials(base::ThreadPool& pool, double peak) {
  const int64_t heads = kHeadsPerThread * pool.size();
  const ir::TensorType q{ir::DType::f32, {1, kSequence, heads, kHead}}, lse{ir::DType::f32, {1, heads, kSequence}};
  const ir::Attrs attrs = {{"scale", 0.125}, {"causal", int64_t{1}}};
  const LoneNode forward("attention", {q, q, q}, attrs, pool);
  const LoneNode backward("attention_grad", {q, q, q, q, lse, q}, attrs, pool);
  const double seconds = best_seconds([&] {
    forward.run();
    backward.run();
  });
  const double products = (forward.cost().flops + backward.cost().flops) / peak;
  const double beside_them = std::max(seconds - products, kLeastShare * seconds);
  return (forward.cost().exponentials + backward.cost().exponentials) / beside_them;
}

double measure_copies(base::ThreadPool& pool) {
  std::vector<char> from(kCopied, 1), to(kCopied, 2);
  const double seconds = best_seconds([&] {
    pool.parallel_for(kCopied, 4096, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * static_cast<double>(kCopied) / seconds;
}

}  // namespace megacpp::runtime::cpu
