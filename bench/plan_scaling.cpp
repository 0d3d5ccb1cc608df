// SPDX-License-Identifier: Apache-2.0
// What `megacpp plan` takes for a full-size model. Over chips, on slices of 4 to 256: under 2 s is the aim, and as much
// for many chips as for few. Over the sequence, up to a million tokens with every kind of attention mask on this
// machine's kernels, whose tiles the plan looks at: under 3 s is the aim, and time and heap at most linear.
// Usage: plan_scaling [recipe]     (default: recipes/nam56r.yaml)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/heap_count.h"
#include "bench/recipe_program.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp {
namespace {

constexpr int kRepeats = 3;
constexpr int64_t kSequences[] = {1 << 17, 1 << 18, 1 << 19, 1 << 20};

struct Mask {
  const char* name;
  std::vector<std::string> settings;
};

std::vector<Mask> masks() {
  const std::vector<std::string> sparse = {"model.attention.sparse_block=256", "model.attention.sparse_local=4",
                                           "model.attention.sparse_global=2"};
  return {{"causal", {}},
          {"window", {"model.attention.window=4096"}},
          {"block-sparse", sparse},
          {"documents", {"model.attention.document_mask=true"}},
          {"sparse+window", {sparse[0], sparse[1], sparse[2], "model.attention.window=4096"}}};
}

// CPU time: planning has one thread, and other work does not count.
double seconds_since(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

struct Measurement {
  double plan_seconds = 0;  // best of the repeats
  double tile_seconds = 0;  // of them, planning the tiles of attention
  int64_t heap_bytes = 0;   // most that planning held at once, its result included
  size_t nodes = 0;         // of the first stage
  size_t text_bytes = 0;
  int64_t chips = 0;
};

// What the plan asked of attention's kernels, once more and alone.
double tile_seconds(const compile::StagePrograms& stage) {
  const schedule::Target target = runtime::cpu::cpu_target(/*threads=*/2);
  const std::clock_t start = std::clock();
  for (const compile::Program& program : stage.programs)
    for (const ir::Node& node : program.graph.nodes()) {
      if (node.op != "attention" && node.op != "attention_grad") continue;
      const ops::Types operands = program.graph.operand_types(node), results = program.graph.result_types(node);
      target.workspace_bytes(node.op, {operands, results, node.attrs});
    }
  return seconds_since(start);
}

Measurement measure(const recipe::Recipe& recipe, const std::string& hardware) {
  Measurement best;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const bench::HeapCount heap;
    const std::clock_t start = std::clock();
    const cli::PlanReport report = cli::make_plan_report(recipe, {.hardware = hardware, .catalog = {.none = true}});
    best.text_bytes = cli::plan_text(report).size();
    const double seconds = seconds_since(start);
    best.heap_bytes = heap.peak_bytes();
    const compile::StagePrograms& stage = report.estimate.compiled.stages[0];
    const double tiles = tile_seconds(stage);
    best.plan_seconds = repeat == 0 ? seconds : std::min(best.plan_seconds, seconds);
    best.tile_seconds = repeat == 0 ? tiles : std::min(best.tile_seconds, tiles);
    best.nodes = 0;
    for (const compile::Program& program : stage.programs) best.nodes += program.graph.nodes().size();
    best.chips = report.estimate.plan().chips;
  }
  return best;
}

void print_slices(const std::string& path) {
  const std::vector<std::string> settings = {"layout.tensor_parallel=4", "layout.zero=3", "train.batch=64"};
  const recipe::Recipe recipe = recipe::load(path, settings);
  fmt::print("{:>10} {:>6} {:>7} {:>11} {:>9}\n", "hardware", "chips", "nodes", "text bytes", "plan s");
  for (const char* hardware : {"v6e:2x2", "v6e:4x4", "v6e:8x8", "v6e:16x16"}) {
    const Measurement m = measure(recipe, hardware);
    fmt::print("{:>10} {:>6} {:>7} {:>11} {:>9.3f}\n", hardware, m.chips, m.nodes, m.text_bytes, m.plan_seconds);
    std::fflush(stdout);
  }
}

// The x of y = a * sequence^x, by least squares of the logarithms.
template <typename Value>
double exponent(const std::vector<Measurement>& all, Value&& value) {
  const double count = static_cast<double>(all.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double log_x = std::log2(static_cast<double>(kSequences[i])), log_y = std::log2(value(all[i]));
    x += log_x, y += log_y, xx += log_x * log_x, xy += log_x * log_y;
  }
  return (count * xy - x * y) / (count * xx - x * x);
}

void print_sequences(const std::string& path) {
  fmt::print("\n{:>13} {:>8} {:>7} {:>9} {:>9} {:>9}\n", "mask", "sequence", "nodes", "plan s", "tiles s", "heap MiB");
  for (const Mask& mask : masks()) {
    std::vector<Measurement> all;
    for (const int64_t sequence : kSequences) {
      std::vector<std::string> settings = mask.settings;
      // The host's kernels, with memory for any of it: a plan that does not fit says so and looks no further.
      settings.insert(settings.end(),
                      {"train.batch=1", fmt::format("train.sequence={}", sequence), "hardware.limit=1024TiB"});
      const Measurement& m = all.emplace_back(measure(recipe::load(path, settings), "host:1"));
      fmt::print("{:>13} {:>8} {:>7} {:>9.3f} {:>9.4f} {:>9.1f}\n", mask.name, sequence, m.nodes, m.plan_seconds,
                 m.tile_seconds, static_cast<double>(m.heap_bytes) / (1 << 20));
      std::fflush(stdout);
    }
    fmt::print("{:>13} {:>8} {:>7} {:>9.2f} {:>9.2f} {:>9.2f}\n", "", "exponent", "",
               exponent(all, [](const Measurement& m) { return m.plan_seconds; }),
               exponent(all, [](const Measurement& m) { return m.tile_seconds; }),
               exponent(all, [](const Measurement& m) { return static_cast<double>(m.heap_bytes); }));
  }
}

int run(const std::string& path) {
  print_slices(path);
  print_sequences(path);
  return 0;
}

}  // namespace
}  // namespace megacpp

int main(int count, char** arguments) {
  return megacpp::bench::run_program(count, arguments, {.default_recipe = "recipes/nam56r.yaml", .run = megacpp::run});
}
