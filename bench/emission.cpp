// SPDX-License-Identifier: Apache-2.0
// Seconds and bytes of writing a full-size training step as a StableHLO module, for one chip and for 256, in both
// placements, with blocks in loops and unrolled. XLA's own compilation takes minutes; writing its input should take
// under a second. Usage: emission [recipe]     (default: recipes/nam56r.yaml)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/recipe_program.h"
#include "megacpp/machine/xla/pjrt/pjrt_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/step.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp {
namespace {

using emit::Placement;

struct Layout {
  const char* name;
  std::vector<std::string> overrides;
};

const std::vector<Layout> kLayouts = {
    {"one chip", {}},
    {"data=32, model=8, zero 3",
     {"train.batch=32", "layout.data_parallel=32", "layout.tensor_parallel=8", "layout.zero=3"}},
};
constexpr double kAimSeconds = 1.0;
constexpr int kRepeats = 3;

struct Measurement {
  double compile_seconds = 0;  // our stages in front of it
  double seconds = 0;          // the best of the repeats
  size_t bytes = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Measurement measure(const recipe::Recipe& recipe, Placement placement, const emit::FunctionOptions& options) {
  Measurement best{.seconds = INFINITY};
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(recipe), runtime::pjrt::xla_target(placement));
  best.compile_seconds = compiled.compile_seconds();
  const compile::StagePrograms& chip = compiled.stages[0];
  const compile::Program& micro_step = chip.find(compile::ProgramKind::micro_step);
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    const emit::Module module = emit::write_step({micro_step.graph, chip.find(compile::ProgramKind::update).graph,
                                                  recipe.train.micro_steps, chip.placements(), micro_step.outputs},
                                                 compiled.mesh, placement, options);
    best.seconds = std::min(best.seconds, seconds_since(start));
    best.bytes = module.text.size();
  }
  return best;
}

int run(const std::string& path) {
  bool is_slow = false;
  fmt::print("{:>10} {:>10} {:>12}  {:>5}  {:>9}  layout\n", "compile s", "emit s", "bytes", "loops", "placement");
  for (const Layout& layout : kLayouts)
    for (const Placement placement : {Placement::megacpp, Placement::xla})
      for (const bool has_loops : {true, false}) {
        const Measurement m =
            measure(recipe::load(path, layout.overrides), placement, emit::FunctionOptions{.has_loops = has_loops});
        is_slow |= m.seconds > kAimSeconds;
        fmt::print("{:>10.2f} {:>10.3f} {:>12}  {:>5}  {:>9}  {}\n", m.compile_seconds, m.seconds, m.bytes,
                   has_loops ? "on" : "off", placement == Placement::xla ? "xla" : "megacpp", layout.name);
        std::fflush(stdout);
      }
  return is_slow ? 1 : 0;
}

}  // namespace
}  // namespace megacpp

int main(int count, char** arguments) {
  return megacpp::bench::run_program(count, arguments, {.default_recipe = "recipes/nam56r.yaml", .run = megacpp::run});
}
