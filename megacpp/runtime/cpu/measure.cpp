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
constexpr double kSecondsOfTurn = 0.015;   // of each kind of work
constexpr double kLongEnough = 0.01;       // of one product, to be measured well
constexpr int64_t kSmallestProduct = 512;  // rows and columns
constexpr int64_t kLargestProduct = 4096;  //
constexpr int64_t kNarrow = 128;           // of a product with few sums, and of one with short sums
constexpr int64_t kRowsPerThread = 1024;   // tokens of a batch
// Bytes that copies read and write again and again: near a core, and from one to the next further from it.
constexpr std::array<int64_t, 6> kCopied = {2 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20};
constexpr int64_t kBriefSequence = 128, kSequence = 1024;
constexpr int64_t kHead = 64, kNarrowHead = 16;  // width, of attention and of state-space products
constexpr int64_t kHeads = 4, kChunk = 64, kSsdSequence = 256;
constexpr int64_t kMostThreads = 32;           // that shapes of some kinds grow for
constexpr int64_t kBytesPerThread = 64 << 20;  // that these take together
constexpr double kLeastShare = 0.01;           // of a kind's time, that is not the work it is made of

/// The threads that measure, and for how many of them shapes grow.
struct Threads {
  base::ThreadPool& pool;
  int64_t measured;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median_of(std::vector<double> turns) {
  static_assert(kTurns % 2 == 1);
  std::ranges::sort(turns);
  return turns[kTurns / 2];
}

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
  double median() const { return median_of(turns); }
  /// Of what the same turn took of another kind.
  double median_over(const Timed& other) const {
    std::vector<double> ratios = turns;
    for (size_t i = 0; i < ratios.size(); ++i) ratios[i] /= other.turns[i];
    return median_of(ratios);
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
struct NarrowProduct {
  explicit NarrowProduct(int64_t rows) : forward(rows, kNarrow, kNarrow), weight(kNarrow, kNarrow, rows) {}
  double bytes() const { return forward.bytes() + weight.bytes(); }
  Product forward, weight;
};

/// One after the other, in turn by so many blocks.
struct NarrowProducts {
  NarrowProducts(int64_t count, const Threads& threads)
      : blocks(several(count, kRowsPerThread * threads.measured)), timed([this, &pool = threads.pool] {
          const NarrowProduct& block = *blocks[next++ % blocks.size()];
          parallel_gemm(block.forward.gemm, pool);
          parallel_gemm(block.weight.gemm, pool);
        }) {}
  static std::vector<std::unique_ptr<NarrowProduct>> several(int64_t count, int64_t rows) {
    std::vector<std::unique_ptr<NarrowProduct>> blocks;
    for (int64_t i = 0; i < count; ++i) blocks.push_back(std::make_unique<NarrowProduct>(rows));
    return blocks;
  }
  double flops() const { return blocks[0]->forward.flops() + blocks[0]->weight.flops(); }
  double bytes() const { return blocks[0]->bytes(); }

  std::vector<std::unique_ptr<NarrowProduct>> blocks;
  size_t next = 0;
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
  double positions() const {
    return sum([](const LoneNode& node) { return node.cost().positions; });
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
LoneNodes attention(std::string_view op, int64_t sequence, int64_t head, const Threads& threads) {
  const int64_t batch = threads.measured * std::max<int64_t>(1, kSequence / sequence);
  const ir::TensorType q = f32({batch, sequence, kHeads, head}), k = f32({batch, sequence, kHeads / 2, head}),
                       lse = f32({batch, kHeads, sequence});
  const ops::Types operands = op == "attention" ? ops::Types{q, k, k} : ops::Types{q, k, k, q, lse, q};
  LoneNodes nodes;
  nodes.push_back(
      std::make_unique<LoneNode>(op, operands, ir::Attrs{{"scale", 0.125}, {"causal", int64_t{1}}}, threads.pool));
  return nodes;
}

/// With its gradient.
LoneNodes state_space(int64_t head, const Threads& threads) {
  const int64_t batch = 2 * threads.measured;
  const ir::TensorType dt = f32({batch, kSsdSequence, kHeads}), a = f32({kHeads});
  const ir::TensorType x = f32({batch, kSsdSequence, kHeads, head}), b = f32({batch, kSsdSequence, 2, head});
  const ir::Attrs attrs = {{"chunk", kChunk}};
  LoneNodes nodes;
  nodes.push_back(std::make_unique<LoneNode>("ssd", ops::Types{x, dt, a, b, b}, attrs, threads.pool));
  nodes.push_back(std::make_unique<LoneNode>("ssd_grad", ops::Types{x, dt, a, b, b, x}, attrs, threads.pool));
  return nodes;
}

/// What training steps are full of: a gate and an optimizer's update.
LoneNodes elementwise(const Threads& threads) {
  constexpr const char* kGate = "in(0,1) in(0,1) logistic(%0) mul(%0,%2) mul(%3,%1) out(%4)";
  constexpr const char* kUpdate =
      "in(0,1) in(0,1) const(0.9) mul(%1,%2) const(0.1) mul(%0,%4) add(%3,%5) in(0,1) const(0.95) mul(%7,%8) "
      "mul(%0,%0) mul(%4,%10) add(%9,%11) sqrt(%12) add(%13,%4) div(%6,%14) in(0,1) mul(%4,%15) sub(%16,%17) out(%6) "
      "out(%12) out(%18)";
  // More than caches near a core hold, and no gigabytes where there are many cores.
  const ir::Shape shape = {kRowsPerThread * std::min<int64_t>(4 * threads.measured, 16), 2 * kNarrow};
  const ir::TensorType x = f32(shape);
  const auto node = [&](const char* program, const char* dtypes, size_t operands) {
    return std::make_unique<LoneNode>("fused", ops::Types(operands, x),
                                      ir::Attrs{{"program", program}, {"dtypes", dtypes}, {"shape", shape}},
                                      threads.pool);
  };
  LoneNodes nodes;
  nodes.push_back(node(kGate, "f32", 2));
  nodes.push_back(node(kUpdate, "f32 f32 f32", 4));
  return nodes;
}

/// Of the first bytes of one buffer to those behind them, by the distance between two looks at a byte.
struct Copies {
  explicit Copies(base::ThreadPool& pool) : bytes(kCopied.back(), 1) {
    for (const int64_t distance : kCopied)
      timed.push_back(std::make_unique<Timed>([this, &pool, half = distance / 2] {
        char* const from = bytes.data();
        pool.parallel_for(half, 4096, [from, half](int64_t begin, int64_t end, int) {
          std::memcpy(from + half + begin, from + begin, static_cast<size_t>(end - begin));
        });
      }));
  }
  /// Beside waking threads. What is nearer is moved no slower: where it seems so, neighbours of the cores were busy.
  std::vector<hw::MoveRate> rates(double launch_seconds) const {
    std::vector<hw::MoveRate> rates(kCopied.size());
    double further = 0;
    for (size_t i = kCopied.size(); i-- > 0;) {
      const double seconds = beside(timed[i]->median(), launch_seconds);
      further = std::max(further, static_cast<double>(kCopied[i]) / seconds);
      rates[i] = {.distance = kCopied[i], .bytes_per_second = further};
    }
    return rates;
  }

  std::vector<char> bytes;
  std::vector<std::unique_ptr<Timed>> timed;
};

/// Threads woken for nothing: what every node takes beside its work.
struct Launches {
  explicit Launches(base::ThreadPool& pool) : timed([&] { pool.run([](int) {}); }) {}
  Timed timed;
};

/// Of attention, or its gradient: of narrow heads what is beside its products, of short sequences what rows take.
struct Attention {
  Attention(std::string_view op, const Threads& threads)
      : narrow(attention(op, kSequence, kNarrowHead, threads)),
        brief(attention(op, kBriefSequence, kHead, threads)),
        lengthy(attention(op, kSequence, kHead, threads)) {}

  double seconds_per_flop() const {
    const auto form = [](const Nodes& nodes) {
      return Form{nodes.flops(), nodes.exponentials(), nodes.timed.median()};
    };
    return prices(form(lengthy), form(narrow)).first;
  }
  hw::ScoreRates rates() const {
    const auto form = [this](const Nodes& nodes) {
      return Form{nodes.exponentials(), nodes.rows(), beside(nodes.timed.median(), nodes.flops() * seconds_per_flop())};
    };
    const Prices each = prices(form(lengthy), form(brief));
    return {.exponentials = rate_of(each.first), .rows = rate_of(each.second)};
  }

  Nodes narrow, brief, lengthy;
};

struct StateSpace {
  explicit StateSpace(const Threads& threads)
      : narrow(state_space(kNarrowHead, threads)), wide(state_space(kHead, threads)) {}
  Prices each() const {
    const auto form = [](const Nodes& nodes) { return Form{nodes.flops(), nodes.positions(), nodes.timed.median()}; };
    return prices(form(wide), form(narrow));
  }

  Nodes narrow, wide;
};

/// How much longer than a copy products wait for what is not near; that of a copy where copies tell no difference.
double product_wait(const NarrowProducts& near, const NarrowProducts& far, double copied_later) {
  constexpr double kLeastTold = 0.05;  // of a product
  if (copied_later < kLeastTold * near.timed.median()) return 1;
  const double later = (far.timed.median_over(near.timed) - 1) * near.timed.median();
  return std::clamp(later / copied_later, 0.0, kLongestWait);
}

}  // namespace

hw::HostRates measure_rates(base::ThreadPool& pool, int64_t memory_bytes) {
  const int64_t most_threads = std::clamp<int64_t>(memory_bytes / 4 / kBytesPerThread, 1, kMostThreads);
  const Threads threads{pool, std::min<int64_t>(pool.size(), most_threads)};
  LargeProduct large(pool);
  NarrowProducts narrow(1, threads);
  NarrowProducts far(std::max<int64_t>(2, kCopied.back() / static_cast<int64_t>(narrow.bytes())), threads);
  Attention forward("attention", threads), backward("attention_grad", threads);
  StateSpace states(threads);
  Nodes programs(elementwise(threads));
  Copies copies(pool);
  Launches launches(pool);
  std::vector<Timed*> kinds = {&large.timed, &narrow.timed, &far.timed, &programs.timed, &launches.timed};
  for (Attention* const kind : {&forward, &backward})
    kinds.insert(kinds.end(), {&kind->narrow.timed, &kind->brief.timed, &kind->lengthy.timed});
  kinds.insert(kinds.end(), {&states.narrow.timed, &states.wide.timed});
  for (const auto& copy : copies.timed) kinds.push_back(copy.get());
  time_all(kinds);
  const Prices product = prices({large.product.flops(), large.product.bytes(), large.timed.median()},
                                {narrow.flops(), narrow.bytes(), narrow.timed.median()});
  const Prices state_space = states.each();
  const auto distance = [](double bytes) { return static_cast<int64_t>(bytes); };
  hw::HostRates rates{.matrix_flops = rate_of(product.first),
                      .product_bytes_per_second = rate_of(product.second),
                      .attention_flops = rate_of(forward.seconds_per_flop()),
                      .attention_grad_flops = rate_of(backward.seconds_per_flop()),
                      .scores = forward.rates(),
                      .score_grads = backward.rates(),
                      .ssd_flops = rate_of(state_space.first),
                      .ssd_positions_per_second = rate_of(state_space.second),
                      .moves = copies.rates(launches.timed.median()),
                      .near = {.products = distance(narrow.bytes()),
                               .attention = distance(forward.lengthy.bytes()),
                               .attention_grad = distance(backward.lengthy.bytes()),
                               .ssd = distance(states.wide.bytes())},
                      .launch_seconds = std::min(launches.timed.median(), kLongestLaunch)};
  rates.bytes_per_second = rates.moves.back().bytes_per_second;
  const double moving = programs.bytes() * hw::move_seconds(rates.moves, programs.bytes());
  rates.elementwise_per_second = programs.flops() / beside(programs.timed.median(), moving);
  const double near = hw::move_seconds(rates.moves, narrow.bytes());
  rates.product_wait = product_wait(narrow, far, narrow.bytes() * (1 / rates.bytes_per_second - near));
  return rates;
}

}  // namespace megacpp::runtime::cpu
