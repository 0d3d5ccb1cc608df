// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cpu/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/runtime/cpu/arena.h"
#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 9;
constexpr double kSecondsOfTurn = 0.015;        // of each kind of work
constexpr double kLongEnough = 0.01;            // of one product, to be measured well
constexpr int64_t kSmallestProduct = 512;       // rows and columns
constexpr int64_t kLargestProduct = 4096;       //
constexpr int64_t kNarrow = 128;                // of a product with few sums, and of one with short sums
constexpr int64_t kRowsPerThread = 1024;        // tokens of a batch
constexpr int64_t kCopied = int64_t{64} << 20;  // bytes: beyond the last cache
constexpr int64_t kBriefSequence = 128, kSequence = 1024;
constexpr int64_t kHead = 64;  // of attention and of state-space products
constexpr int64_t kHeads = 4, kChunk = 64, kSsdSequence = 256;
constexpr int kMostThreads = 32;      // that shapes grow for: with these all kinds take a gigabyte
constexpr double kLeastShare = 0.01;  // of a kind's time, that is not the work it is made of

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A kind of work, and what a run of it took in each turn.
struct Timed {
  explicit Timed(std::function<void()> work) : run(std::move(work)) { run(); }  // warms caches and threads
  Timed(const Timed&) = delete;  // the work reads the object that this is part of
  Timed& operator=(const Timed&) = delete;
  void take_turn(double for_seconds) {
    const auto start = Clock::now();
    int runs = 0;
    double spent = 0;
    for (; spent < for_seconds; spent = seconds_since(start), ++runs) run();
    turns.push_back(spent / runs);
  }
  double median() const {
    static_assert(kTurns % 2 == 1);
    std::vector<double> sorted = turns;
    std::ranges::sort(sorted);
    return sorted[kTurns / 2];
  }

  std::function<void()> run;
  std::vector<double> turns;
};

void time_all(std::span<Timed* const> kinds) {
  for (int turn = 0; turn < kTurns; ++turn)
    for (Timed* const kind : kinds) kind->take_turn(kSecondsOfTurn);
}

/// [m, k] times [k, n].
struct Product {
  Product(int64_t m, int64_t n, int64_t k)
      : a(static_cast<size_t>(m * k), 1.0F),
        b(static_cast<size_t>(k * n), 0.5F),
        c(static_cast<size_t>(m * n)),
        gemm{.m = m, .n = n, .k = k, .a = a.data(), .lda = k, .b = b.data(), .ldb = n, .c = c.data(), .ldc = n} {}
  Product(const Product&) = delete;  // gemm points into the object
  Product& operator=(const Product&) = delete;

  double flops() const {
    return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  }
  double bytes() const { return static_cast<double>(sizeof(float) * (a.size() + b.size() + c.size())); }

  std::vector<float> a, b, c;
  Gemm gemm;
};

/// Seconds that work takes beside another part of it.
double beside(double seconds, double part) { return std::max(seconds - part, kLeastShare * seconds); }

/// A kind of work that was timed in two forms, and how much of each of two things the forms have.
struct Form {
  double first, second, seconds;
};
/// What one of either thing takes: the first something, the second no less than nothing.
struct Prices {
  double first, second;
};
Prices prices(const Form& a, const Form& b) {
  const double part = b.first / a.first;
  const double second = std::max(0.0, (b.seconds - part * a.seconds) / (b.second - part * a.second));
  return {.first = beside(a.seconds, second * a.second) / a.first, .second = second};
}

double rate_of(double price) { return price > 0 ? 1 / price : 0; }

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
  const ops::Cost& cost() const { return cost_; }
  double bytes() const { return bytes_; }  // of operands and results

 private:
  std::byte* allocate(int64_t bytes) {
    return arenas_.emplace_back(std::make_unique<Arena>(aligned(std::max<int64_t>(1, bytes))))->at(0);
  }

  base::ThreadPool& pool_;
  Prepared prepared_;
  ops::Cost cost_;
  double bytes_ = 0;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::byte*> operands_, results_;
  std::byte* workspace_ = nullptr;
};

int64_t threads_of(const base::ThreadPool& pool) { return std::min(pool.size(), kMostThreads); }

/// Large enough that the pool's threads are busy for a while.
int64_t side_of_large_product(base::ThreadPool& pool) {
  for (int64_t side = kSmallestProduct;; side *= 2) {
    const Product product(side, side, side);
    parallel_gemm(product.gemm, pool);
    const auto start = Clock::now();
    parallel_gemm(product.gemm, pool);
    if (seconds_since(start) >= kLongEnough || side >= kLargestProduct) return side;
  }
}

struct LargeProduct {
  explicit LargeProduct(base::ThreadPool& pool)
      : side(side_of_large_product(pool)),
        product(side, side, side),
        timed([&] { parallel_gemm(product.gemm, pool); }) {}
  int64_t side;
  Product product;
  Timed timed;
};

/// Of a narrow block: its product with a batch of tokens, and the gradient of its weight.
struct NarrowProducts {
  explicit NarrowProducts(base::ThreadPool& pool)
      : forward(kRowsPerThread * threads_of(pool), kNarrow, kNarrow),
        weight(kNarrow, kNarrow, kRowsPerThread * threads_of(pool)),
        timed([&] {
          parallel_gemm(forward.gemm, pool);
          parallel_gemm(weight.gemm, pool);
        }) {}
  Product forward, weight;
  Timed timed;
};

ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }

using LoneNodes = std::vector<std::unique_ptr<LoneNode>>;

/// One after the other.
struct Nodes {
  explicit Nodes(LoneNodes all)
      : nodes(std::move(all)), timed([this] {
          for (const auto& node : nodes) node->run();
        }) {}
  double sum(double (*figure)(const LoneNode&)) const {
    double all = 0;
    for (const auto& node : nodes) all += figure(*node);
    return all;
  }
  double flops() const {
    return sum([](const LoneNode& node) { return node.cost().flops; });
  }
  double bytes() const {
    return sum([](const LoneNode& node) { return node.bytes(); });
  }
  double exponentials() const {
    return sum([](const LoneNode& node) { return node.cost().exponentials; });
  }
  double rows() const {
    return sum([](const LoneNode& node) { return node.cost().rows; });
  }

  LoneNodes nodes;
  Timed timed;
};

/// `attention`, or its gradient, of a few long sequences or of more that are short.
LoneNodes attention(std::string_view op, int64_t sequence, base::ThreadPool& pool) {
  const int64_t batch = threads_of(pool) * std::max<int64_t>(1, kSequence / sequence);
  const ir::TensorType q = f32({batch, sequence, kHeads, kHead}), k = f32({batch, sequence, kHeads / 2, kHead}),
                       lse = f32({batch, kHeads, sequence});
  const ops::Types operands = op == "attention" ? ops::Types{q, k, k} : ops::Types{q, k, k, q, lse, q};
  LoneNodes nodes;
  nodes.push_back(std::make_unique<LoneNode>(op, operands, ir::Attrs{{"scale", 0.125}, {"causal", int64_t{1}}}, pool));
  return nodes;
}

/// Of narrow and of wide heads, whose products reach less and more.
LoneNodes state_space(base::ThreadPool& pool) {
  const int64_t batch = 2 * threads_of(pool);
  const ir::TensorType dt = f32({batch, kSsdSequence, kHeads}), a = f32({kHeads});
  const ir::Attrs attrs = {{"chunk", kChunk}};
  LoneNodes nodes;
  for (const int64_t width : {kHead / 2, kHead}) {
    const ir::TensorType x = f32({batch, kSsdSequence, kHeads, width}), b = f32({batch, kSsdSequence, 2, width});
    nodes.push_back(std::make_unique<LoneNode>("ssd", ops::Types{x, dt, a, b, b}, attrs, pool));
    nodes.push_back(std::make_unique<LoneNode>("ssd_grad", ops::Types{x, dt, a, b, b, x}, attrs, pool));
  }
  return nodes;
}

/// What training steps are full of: a gate and an optimizer's update.
LoneNodes elementwise(base::ThreadPool& pool) {
  constexpr const char* kGate = "in(0,1) in(0,1) logistic(%0) mul(%0,%2) mul(%3,%1) out(%4)";
  constexpr const char* kUpdate =
      "in(0,1) in(0,1) const(0.9) mul(%1,%2) const(0.1) mul(%0,%4) add(%3,%5) in(0,1) const(0.95) mul(%7,%8) "
      "mul(%0,%0) mul(%4,%10) add(%9,%11) sqrt(%12) add(%13,%4) div(%6,%14) in(0,1) mul(%4,%15) sub(%16,%17) out(%6) "
      "out(%12) out(%18)";
  // More than caches near a core hold, and no gigabytes where there are many cores.
  const ir::Shape shape = {kRowsPerThread * std::min(4 * pool.size(), 16), 2 * kNarrow};
  const ir::TensorType x = f32(shape);
  const auto node = [&](const char* program, const char* dtypes, size_t operands) {
    return std::make_unique<LoneNode>("fused", ops::Types(operands, x),
                                      ir::Attrs{{"program", program}, {"dtypes", dtypes}, {"shape", shape}}, pool);
  };
  LoneNodes nodes;
  nodes.push_back(node(kGate, "f32", 2));
  nodes.push_back(node(kUpdate, "f32 f32 f32", 4));
  return nodes;
}

struct Copies {
  explicit Copies(base::ThreadPool& pool)
      : from(kCopied, 1), to(kCopied, 2), timed([&] {
          pool.parallel_for(kCopied, 4096, [&](int64_t begin, int64_t end, int) {
            std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
          });
        }) {}
  double bytes() const { return 2.0 * static_cast<double>(kCopied); }

  std::vector<char> from, to;
  Timed timed;
};

/// Threads woken for nothing: what every node takes beside its work.
struct Launches {
  explicit Launches(base::ThreadPool& pool) : timed([&] { pool.run([](int) {}); }) {}
  Timed timed;
};

/// Of attention, or its gradient.
struct Attention {
  Attention(std::string_view op, base::ThreadPool& pool)
      : brief(attention(op, kBriefSequence, pool)), lengthy(attention(op, kSequence, pool)) {}

  hw::ScoreRates rates(double seconds_per_flop) const {
    const auto form = [&](const Nodes& nodes) {
      return Form{nodes.exponentials(), nodes.rows(), beside(nodes.timed.median(), nodes.flops() * seconds_per_flop)};
    };
    const Prices each = prices(form(lengthy), form(brief));
    return {.exponentials = rate_of(each.first), .rows = rate_of(each.second)};
  }

  Nodes brief, lengthy;
};

}  // namespace

MeasuredRates measure_rates(base::ThreadPool& pool) {
  LargeProduct large(pool);
  NarrowProducts narrow(pool);
  Attention scores("attention", pool), score_grads("attention_grad", pool);
  Nodes states(state_space(pool)), programs(elementwise(pool));
  Copies copies(pool);
  Launches launches(pool);
  time_all(std::array{&large.timed, &narrow.timed, &scores.brief.timed, &scores.lengthy.timed, &score_grads.brief.timed,
                      &score_grads.lengthy.timed, &states.timed, &programs.timed, &copies.timed, &launches.timed});
  const Prices product = prices({large.product.flops(), large.product.bytes(), large.timed.median()},
                                {narrow.forward.flops() + narrow.weight.flops(),
                                 narrow.forward.bytes() + narrow.weight.bytes(), narrow.timed.median()});
  const double bytes_per_second = copies.bytes() / copies.timed.median();
  return {.product_flops = rate_of(product.first),
          .product_bytes = rate_of(product.second),
          .scores = scores.rates(product.first),
          .score_grads = score_grads.rates(product.first),
          .ssd_flops = states.flops() / states.timed.median(),
          .elementwise = programs.flops() / beside(programs.timed.median(), programs.bytes() / bytes_per_second),
          .bytes = bytes_per_second,
          .launch_seconds = launches.timed.median()};
}

}  // namespace megacpp::runtime::cpu
