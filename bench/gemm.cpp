// SPDX-License-Identifier: Apache-2.0
// Matrix products in the shapes of a small model's training step: 2048 tokens, hidden 384. Reports FLOP/s.
#include "megacpp/machine/cpu/gemm.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace megacpp::runtime::cpu {
namespace {

/// Arguments: m, n, k, threads.
void gemm_shape(benchmark::State& state) {
  const int64_t m = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  base::ThreadPool pool(static_cast<int>(state.range(3)));
  const std::vector<float> a(static_cast<size_t>(m * k), 0.5F);   // [m, k]
  const std::vector<float> b(static_cast<size_t>(k * n), 0.25F);  // [k, n]
  std::vector<float> c(static_cast<size_t>(m * n));               // [m, n]
  for (auto _ : state) {
    parallel_gemm({.m = m, .n = n, .k = k, .a = a.data(), .lda = k, .b = b.data(), .ldb = n, .c = c.data(), .ldc = n},
                  pool);
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(
      2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

BENCHMARK(gemm_shape)
    ->ArgNames({"m", "n", "k", "threads"})
    ->Args({2048, 384, 384, 1})
    ->Args({2048, 384, 384, 2})
    ->Args({2048, 1536, 384, 2})
    ->Args({2048, 384, 1536, 2})
    ->Args({384, 1536, 2048, 2})
    ->UseRealTime();

}  // namespace
}  // namespace megacpp::runtime::cpu
