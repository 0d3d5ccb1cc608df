// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/half_precision.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "megacpp/core/base/philox.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/run/train/run_state.h"
#include "tests/support/relative_error.h"

namespace megacpp::testing_support {
namespace {

std::vector<int32_t> random_tokens(const recipe::Recipe& recipe, const std::string& name) {
  const base::Philox random(static_cast<uint64_t>(recipe.train.seed), name);
  std::vector<int32_t> tokens(static_cast<size_t>(recipe.train.batch * recipe.train.sequence));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random.uniform(i) * static_cast<double>(recipe.model.vocab));
  return tokens;
}

// By value: results stored in bf16 in a row, up to and with its own.
std::vector<int64_t> roundings_of(const ir::Graph& graph) {
  std::vector<int64_t> depth(graph.values().size(), 0);
  for (const ir::Node& node : graph.nodes()) {
    int64_t before = 0;
    for (const ir::ValueId operand : node.operands) before = std::max(before, depth[operand.index]);
    for (const ir::ValueId result : node.results)
      depth[result.index] = before + (graph.type(result).dtype == ir::DType::bf16 ? 1 : 0);
  }
  return depth;
}

}  // namespace

GradientRun run_gradients(recipe::Recipe recipe, const runtime::Backend& backend) {
  recipe.backend = backend.name;
  const plan::Plan plan = plan::make_plan(recipe);
  const ir::DType compute = recipe.train.precision;
  model::ForwardModel forward =
      model::build_forward(recipe.model, {recipe.train.batch, recipe.train.sequence, compute}, plan);
  const std::vector<model::ExpertLoad> loads = forward.expert_loads;
  for (const model::ExpertLoad& load : loads)
    forward.graph.add_output({.name = load.counts_name(), .value = load.counts});
  const compile::Compiled compiled =
      compile::compile_gradients({.forward = std::move(forward), .plan = plan},
                                 runtime::target_on(backend, recipe::run_request(recipe), plan.parallel.mesh));
  runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe), 1);
  for (const blocks::Parameter& parameter : compiled.parameters)
    if (parameter.trainable) options.fetches.push_back(optim::gradient_name(parameter.name));
  for (const model::ExpertLoad& load : loads) options.fetches.push_back(load.counts_name());
  const auto run = runtime::load_on(backend, recipe::run_request(recipe), compiled, options);

  train::RunState state(compiled, *run);
  state.initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  for (const std::string name : {"batch.ids", "batch.labels"})
    state.stage<int32_t>(name, 0, random_tokens(recipe, name));
  std::vector<int32_t> positions(static_cast<size_t>(recipe.train.sequence));
  std::iota(positions.begin(), positions.end(), 0);
  state.stage<int32_t>("batch.positions", 0, positions);
  run->run_step(runtime::StepMode::plain);

  const ir::Graph& graph = compiled.stages[0].programs[0].graph;
  const std::vector<int64_t> depth = roundings_of(graph);
  GradientRun result;
  for (const blocks::Parameter& parameter : compiled.parameters) {
    if (!parameter.trainable) continue;
    const std::string name = optim::gradient_name(parameter.name);
    result.gradients[parameter.name] = state.output(name).at(0);
    result.roundings[parameter.name] = depth[graph.find_output(name)->index];
  }
  for (const model::ExpertLoad& load : loads) result.expert_loads[load.block] = state.output(load.counts_name()).at(0);
  return result;
}

std::string half_precision_problems(const GradientRun& half, const GradientRun& single) {
  std::string problems;
  for (const auto& [name, wanted] : single.gradients) {
    const auto got = half.gradients.find(name);
    if (got == half.gradients.end()) {
      problems += name + " has no gradient in bf16\n";
      continue;
    }
    const double error = relative_error(got->second, wanted);
    const int64_t roundings = half.roundings.at(name);
    const double allowed = kCancellation * std::sqrt(static_cast<double>(roundings)) * kHalfRoundoff;
    if (error == 0) problems += name + " is that of f32 to the bit: nothing was rounded\n";
    if (!(error <= allowed))  // NaN is a problem
      problems +=
          fmt::format("{} is off by {:.3f}, allowed after {} roundings is {:.3f}\n", name, error, roundings, allowed);
  }
  return problems;
}

std::string half_precision_problems(const RunOfSeed& half, const RunOfSeed& single, int64_t seeds) {
  std::string unlike;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const GradientRun in_half = half(seed), in_single = single(seed);
    if (in_half.expert_loads == in_single.expert_loads) return half_precision_problems(in_half, in_single);
    unlike += fmt::format(" {}", seed);
    fmt::print("seed {}: bf16 chooses other experts than f32, which is no rounding error\n", seed);
  }
  return "no seed to compare at: bf16 chooses other experts than f32 at" + unlike;
}

}  // namespace megacpp::testing_support
