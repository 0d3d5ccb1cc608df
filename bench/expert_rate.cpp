// SPDX-License-Identifier: Apache-2.0
// Sustained rates of every product of the experts of hybrid-2b, forward and backward, on the GPU of this machine, each
// with cuBLASLt's dense product of as much work behind it. Each runs for seconds, so that power and not a burst
// decides. usage: expert_rate [SECONDS [NAME]]   NAME: only products whose name contains it
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/loaded_program.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/gpu.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr double kDefaultSeconds = 3;
constexpr double kWarmSeconds = 0.5;  // before what counts: clocks settle
constexpr int kRepeats = 20;          // of a program in one timing

struct Pair {
  OpCase experts, dense;
  int in_block;  // how many of them a block has in a training step
};

using Dims = std::vector<int64_t>;

ir::Attrs dot_attrs(Dims lhs, Dims rhs, const Dims& batch = {}) {
  return {
      {"lhs_contract", std::move(lhs)}, {"rhs_contract", std::move(rhs)}, {"lhs_batch", batch}, {"rhs_batch", batch}};
}

ir::Attrs transposed(int64_t flag) { return {{"transpose_w", flag}}; }

// 32,768 tokens with two of eight experts each; h 2048, FFN 4096. Gradients of matrices are dense as eight products.
std::vector<Pair> products() {
  constexpr int64_t kChunks = 8, kExperts = 8, kHidden = 2048, kInner = 4096, kRows = kChunks * kChunkRows;
  const auto rows = [](int64_t width) { return bf16_type({kChunks, 1, kChunkRows, width}); };
  const ir::TensorType x = rows(kHidden), inner = rows(kInner), counts{ir::DType::i32, {kChunks, 1, kExperts}};
  const ir::TensorType into = bf16_type({kExperts, kHidden, kInner}), down = bf16_type({kExperts, kInner, kHidden});
  const auto dense = [](int64_t k, int64_t n) {
    return OpCase{"", "dot", {bf16_type({kRows, k}), bf16_type({k, n})}, dot_attrs({1}, {0})};
  };
  const auto dense_transposed = [](int64_t k, int64_t n) {
    return OpCase{"", "dot", {bf16_type({kRows, k}), bf16_type({n, k})}, dot_attrs({1}, {1})};
  };
  const auto dense_weight = [](int64_t m, int64_t n) {
    ir::Attrs attrs = dot_attrs({1}, {1}, {0});
    attrs.set("dtype", std::string("f32"));
    const int64_t each = kRows / kExperts;
    return OpCase{"", "dot", {bf16_type({kExperts, each, m}), bf16_type({kExperts, each, n})}, attrs};
  };
  ir::Attrs weight = transposed(0);
  weight.set("dtype", std::string("f32"));
  return {
      {{"gate, up forward", "ragged_swiglu", {x, into, into, counts}, {{"keep_products", int64_t{1}}}},
       dense(kHidden, 2 * kInner),
       1},
      {{"down forward", "ragged_dot", {inner, down, counts}, transposed(0)}, dense(kInner, kHidden), 1},
      {{"down, to gate and up", "ragged_swiglu_grad", {x, down, counts, inner, inner}, {{"make_h", int64_t{0}}}},
       dense_transposed(kHidden, kInner),
       1},
      {{"up to rows", "ragged_dot", {inner, into, counts}, transposed(1)}, dense_transposed(kInner, kHidden), 1},
      {{"gate to rows, added", "ragged_dot", {inner, into, counts, x}, transposed(1)},
       dense_transposed(kInner, kHidden),
       1},
      {{"down's matrices", "ragged_dot_weight", {inner, x, counts}, weight}, dense_weight(kInner, kHidden), 1},
      {{"gate's and up's matrices", "ragged_dot_weight", {x, inner, counts}, weight}, dense_weight(kHidden, kInner), 2},
  };
}

// Of one run, the mean of those that began after the warm ones.
double sustained_seconds(const OpCase& one, const Gpu& gpu, double seconds) {
  using Clock = std::chrono::steady_clock;
  const LoadedProgram program(program_of(one, cuda_target()), gpu);
  program.fill_inputs();
  const Clock::time_point begin = Clock::now();
  double sum = 0;
  int timings = 0;
  for (double passed = 0; passed < kWarmSeconds + seconds || timings == 0;) {
    const double each = program.seconds(kRepeats);
    if (passed >= kWarmSeconds) {
      sum += each;
      ++timings;
    }
    passed = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return sum / timings;
}

int run_all(double seconds, std::string_view wanted) {
  const base::Decision usable = backend_named("cuda").usable({});
  if (!usable) {
    fmt::print(stderr, "expert_rate: {}\n", usable.reason());
    return 1;
  }
  const Gpu gpu(open_driver(driver_place({})), {.ordinal = 0, .libraries = {}, .find_cubin = embedded_cubin});
  gpu.attach();
  fmt::print("{:<28}{:>10}{:>10}{:>12}{:>12}{:>10}\n", "", "ms", "TF/s", "dense ms", "dense TF/s", "x dense");
  double experts_ms = 0, dense_ms = 0;
  for (const Pair& pair : products()) {
    if (pair.experts.name.find(wanted) == std::string::npos) continue;
    const double ours = sustained_seconds(pair.experts, gpu, seconds),
                 dense = sustained_seconds(pair.dense, gpu, seconds);
    const double tera = pair.dense.flops() / 1e12;
    fmt::print("{:<28}{:>10.3f}{:>10.0f}{:>12.3f}{:>12.0f}{:>10.3f}\n", pair.experts.name, 1e3 * ours, tera / ours,
               1e3 * dense, tera / dense, ours / dense);
    std::fflush(stdout);
    experts_ms += 1e3 * ours * pair.in_block;
    dense_ms += 1e3 * dense * pair.in_block;
  }
  fmt::print("{:<28}{:>10.3f}{:>10}{:>12.3f}{:>12}{:>10.3f}\n", "a block of them", experts_ms, "", dense_ms, "",
             experts_ms / dense_ms);
  return 0;
}

}  // namespace
}  // namespace megacpp::runtime::cuda

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : megacpp::runtime::cuda::kDefaultSeconds;
  return megacpp::runtime::cuda::run_all(std::max(0.1, seconds), argc > 2 ? argv[2] : "");
}
