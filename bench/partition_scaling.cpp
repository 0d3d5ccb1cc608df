// SPDX-License-Identifier: Apache-2.0
// Compile time of a full-size model over layouts of 1 to 256 chips. Partitioning makes one program for all chips, so
// its time should follow the number of nodes and not the number of chips; under a second each is the aim.
// Usage: partition_scaling [recipe]     (default: recipes/nam56r.yaml)
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/recipe_program.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp {
namespace {

const std::vector<std::string> kLayouts = {
    "layout.data_parallel=1",
    "layout.tensor_parallel=8",
    "layout.data_parallel=8 layout.tensor_parallel=8",
    "layout.data_parallel=32 layout.tensor_parallel=8 layout.zero=1",
    "layout.data_parallel=32 layout.tensor_parallel=8 layout.zero=3",
    "layout.data_parallel=16 layout.expert_parallel=2 layout.tensor_parallel=8 layout.zero=3",
    "layout.data_parallel=2 layout.expert_parallel=16 layout.tensor_parallel=8",
    "layout.data_parallel=4 layout.context_parallel=8 layout.tensor_parallel=8 layout.zero=3",
};
constexpr int kRepeats = 3;

struct Measurement {
  int64_t chips = 0;
  size_t nodes = 0;                       // of a chip's programs, scheduled
  std::vector<compile::PassTime> passes;  // each the best of the repeats by itself, without verification
};

recipe::Recipe load(const std::string& path, const std::string& layout) {
  std::vector<std::string> overrides = {"train.batch=32"};
  std::istringstream words(layout);
  for (std::string word; words >> word;) overrides.push_back(word);
  return recipe::load(path, overrides);
}

Measurement measure(const recipe::Recipe& recipe) {
  Measurement best;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1));
    best.chips = compiled.mesh.chips();
    best.nodes = 0;
    for (const compile::Program& program : compiled.programs_of(0).programs) best.nodes += program.graph.nodes().size();
    if (best.passes.empty()) best.passes = compiled.passes;
    for (size_t s = 0; s < best.passes.size(); ++s)
      best.passes[s].seconds = std::min(best.passes[s].seconds, compiled.passes[s].seconds);
  }
  return best;
}

int run(const std::string& path) {
  std::vector<std::string> columns;  // passes that the rows below have run
  for (const std::string& layout : kLayouts) {
    const Measurement m = measure(load(path, layout));
    std::vector<std::string> names;
    for (const compile::PassTime& pass : m.passes) names.push_back(pass.name);
    if (names != columns) {
      fmt::print("{:>5} {:>7}", "chips", "nodes");
      for (const std::string& name : names) fmt::print(" {:>20}", name);
      fmt::print("  ms\n");
      columns = names;
    }
    fmt::print("{:>5} {:>7}", m.chips, m.nodes);
    for (const compile::PassTime& pass : m.passes) fmt::print(" {:>20.1f}", 1e3 * pass.seconds);
    fmt::print("  {}\n", layout);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace megacpp

int main(int count, char** arguments) {
  return megacpp::bench::run_program(count, arguments, {.default_recipe = "recipes/nam56r.yaml", .run = megacpp::run});
}
