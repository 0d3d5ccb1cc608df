// SPDX-License-Identifier: Apache-2.0
// Seconds that `megacpp plan` takes for a full-size model on slices of 4 to 256 chips: under 2 is the aim, and as much
// for many chips as for few.
// Usage: plan_scaling [recipe]     (default: recipes/nam56r.yaml)
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/recipe_program.h"
#include "megacpp/cli/plan_report.h"
#include "megacpp/recipe/parse.h"

namespace megacpp {
namespace {

constexpr int kRepeats = 3;

int run(const std::string& path) {
  const std::vector<std::string> settings = {"layout.tensor_parallel=4", "layout.zero=3", "train.batch=64"};
  const recipe::Recipe recipe = recipe::load(path, settings);
  fmt::print("{:>10} {:>6} {:>7} {:>11} {:>9}\n", "hardware", "chips", "nodes", "text bytes", "plan s");
  for (const char* hardware : {"v6e:2x2", "v6e:4x4", "v6e:8x8", "v6e:16x16"}) {
    double best = 0;
    size_t nodes = 0, text_bytes = 0;
    int64_t chips = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const std::clock_t start = std::clock();  // of CPU time: planning has one thread, and other work does not count
      const cli::PlanReport report = cli::make_plan_report(recipe, {.hardware = hardware, .catalog = {.none = true}});
      text_bytes = cli::plan_text(report).size();
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      best = repeat == 0 ? seconds : std::min(best, seconds);
      nodes = 0;
      for (const compile::Program& program : report.estimate.compiled.stages[0].programs)
        nodes += program.graph.nodes().size();
      chips = report.estimate.plan.chips;
    }
    fmt::print("{:>10} {:>6} {:>7} {:>11} {:>9.3f}\n", hardware, chips, nodes, text_bytes, best);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace megacpp

int main(int count, char** arguments) {
  return megacpp::bench::run_program(count, arguments, {.default_recipe = "recipes/nam56r.yaml", .run = megacpp::run});
}
