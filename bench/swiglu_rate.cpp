// SPDX-License-Identifier: Apache-2.0
// SwiGLU inside its products beside products and clusters one after the other, on the GPU of this machine, at the sizes
// of bench/recipes. Both ways run in turn, on random data, so that clocks and power are the same for both.
// usage: swiglu_rate [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/loaded_program.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/cuda/cuda_backend.h"
#include "megacpp/machine/cuda/gpu.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kRepeats = 10;       // of a program in one timing
constexpr int kDefaultRounds = 7;  // timings of each way

// hybrid-2b: 32,768 tokens with two of eight experts each.
std::vector<OpCase> rate_cases() {
  const ir::TensorType rows = bf16_type({8, 1, kChunkRows, 2048}), inner = bf16_type({8, 1, kChunkRows, 4096});
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

// That of the backend, or one that takes the op apart.
schedule::Target target_of(const OpCase& one, bool whole) {
  schedule::Target target = cuda_target();
  if (!whole)
    target.runs = [runs = target.runs, joined = one.op](std::string_view op, const ops::NodeView& view) {
      return op == joined ? base::Decision::no("it is taken apart") : runs(op, view);
    };
  return target;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const OpCase& one, const Gpu& gpu, int rounds) {
  std::vector<std::unique_ptr<LoadedProgram>> ways;
  for (const bool whole : {false, true}) {
    ways.push_back(std::make_unique<LoadedProgram>(program_of(one, target_of(one, whole)), gpu));
    ways.back()->fill_inputs();
    ways.back()->seconds(kRepeats);  // loads what is loaded at the first launch
  }
  std::vector<double> seconds[2];
  for (int round = 0; round < rounds; ++round)
    for (size_t way = 0; way < 2; ++way) seconds[way].push_back(ways[way]->seconds(kRepeats));
  const double apart = median(seconds[0]), whole = median(seconds[1]);
  fmt::print("{:<28}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.0f}\n", one.name, 1e3 * apart, 1e3 * whole, apart / whole,
             one.flops() / whole / 1e12);
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
  for (const OpCase& one : rate_cases()) measure(one, gpu, rounds);
  return 0;
}

}  // namespace
}  // namespace megacpp::runtime::cuda

int main(int argc, char** argv) {
  return megacpp::runtime::cuda::run_all(argc > 1 ? std::max(1, std::atoi(argv[1]))
                                                  : megacpp::runtime::cuda::kDefaultRounds);
}
