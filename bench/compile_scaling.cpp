// SPDX-License-Identifier: Apache-2.0
// Compile time and compiler memory over the depth of the hybrid model: both should grow with the number of blocks, so
// the cost per block should stay the same. Prints a table, per-pass costs, and the ratio of the deepest to the
// shallowest.
// Usage: compile_scaling [recipe]     (default: bench/recipes/hybrid.yaml)
#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/heap_count.h"
#include "bench/recipe_program.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp {
namespace {

constexpr int64_t kDepths[] = {12, 24, 48, 96, 192};
constexpr int kRepeats = 3;
constexpr int kThreads = 2;  // planned for, so that workspace is the same everywhere

struct Measurement {
  int64_t depth = 0;
  size_t nodes = 0;           // of all programs, scheduled
  double milliseconds = 0;    // of CPU time: the compiler has one thread, and other work does not count
  int64_t heap_bytes = 0;     // most the compiler held at once, its result included
  int64_t planned_bytes = 0;  // the arena of the run
  std::vector<compile::PassTime> passes;
};

// Of the last pass that leaves nodes; later ones plan memory.
size_t scheduled_nodes(const std::vector<compile::PassTime>& passes) {
  size_t nodes = 0;
  for (const compile::PassTime& pass : passes)
    if (pass.nodes > 0) nodes = pass.nodes;
  return nodes;
}

Measurement measure_once(const recipe::Recipe& recipe, const schedule::Target& target) {
  const bench::HeapCount heap;
  const std::clock_t start = std::clock();
  compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), target);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {.depth = recipe.model.depth,
          .nodes = scheduled_nodes(compiled.passes),
          .milliseconds = 1e3 * seconds,
          .heap_bytes = heap.peak_bytes(),
          .planned_bytes = compiled.largest().memory.total_bytes,
          .passes = std::move(compiled.passes)};
}

// Each time is the best of the repeats by itself.
Measurement measure(const std::string& path, int64_t depth) {
  const std::vector<std::string> overrides = {fmt::format("model.depth={}", depth)};
  const recipe::Recipe recipe = recipe::load(path, overrides);
  const schedule::Target target = runtime::cpu::cpu_target(kThreads);
  Measurement best = measure_once(recipe, target);
  for (int repeat = 1; repeat < kRepeats; ++repeat) {
    const Measurement again = measure_once(recipe, target);
    best.milliseconds = std::min(best.milliseconds, again.milliseconds);
    for (size_t s = 0; s < best.passes.size(); ++s)
      best.passes[s].seconds = std::min(best.passes[s].seconds, again.passes[s].seconds);
  }
  return best;
}

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void print_totals(const std::vector<Measurement>& all) {
  fmt::print("{:>5} {:>7} {:>9} {:>9} {:>11} | {:>9} {:>9} {:>9} {:>11}\n", "depth", "nodes", "ms", "heap MiB",
             "planned MiB", "nodes/blk", "ms/blk", "heap/blk", "planned/blk");
  for (const Measurement& m : all) {
    const double depth = static_cast<double>(m.depth);
    fmt::print("{:>5} {:>7} {:>9.1f} {:>9.1f} {:>11.1f} | {:>9.1f} {:>9.3f} {:>9.3f} {:>11.2f}\n", m.depth, m.nodes,
               m.milliseconds, mebibytes(m.heap_bytes), mebibytes(m.planned_bytes),
               static_cast<double>(m.nodes) / depth, m.milliseconds / depth, mebibytes(m.heap_bytes) / depth,
               mebibytes(m.planned_bytes) / depth);
  }
}

// Microseconds per block of each pass, and how that grew from the first depth to the last. Passes are timed by
// the wall clock and without their verification.
void print_passes(const std::vector<Measurement>& all) {
  fmt::print("\n{:<20}", "us/block");
  for (const Measurement& m : all) fmt::print(" {:>8}", m.depth);
  fmt::print(" {:>8}\n", "growth");
  for (size_t s = 0; s < all.front().passes.size(); ++s) {
    const auto cost = [s](const Measurement& m) { return 1e6 * m.passes[s].seconds / static_cast<double>(m.depth); };
    fmt::print("{:<20}", all.front().passes[s].name);
    for (const Measurement& m : all) fmt::print(" {:>8.1f}", cost(m));
    fmt::print(" {:>8.2f}\n", cost(all.back()) / cost(all.front()));
  }
}

void print_growth(const Measurement& first, const Measurement& last) {
  const double deeper = static_cast<double>(last.depth) / static_cast<double>(first.depth);
  fmt::print("\ncost per block, depth {} over depth {} (1 is linear): ", last.depth, first.depth);
  fmt::print("nodes {:.2f}, time {:.2f}, heap {:.2f}, planned {:.2f}\n",
             static_cast<double>(last.nodes) / static_cast<double>(first.nodes) / deeper,
             last.milliseconds / first.milliseconds / deeper,
             static_cast<double>(last.heap_bytes) / static_cast<double>(first.heap_bytes) / deeper,
             static_cast<double>(last.planned_bytes) / static_cast<double>(first.planned_bytes) / deeper);
}

int run(const std::string& path) {
  std::vector<Measurement> all;
  for (const int64_t depth : kDepths) all.push_back(measure(path, depth));
  print_totals(all);
  print_passes(all);
  print_growth(all.front(), all.back());
  return 0;
}

}  // namespace
}  // namespace megacpp

int main(int count, char** arguments) {
  return megacpp::bench::run_program(count, arguments,
                                     {.default_recipe = "bench/recipes/hybrid.yaml", .run = megacpp::run});
}
