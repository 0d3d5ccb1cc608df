// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/training_comparison.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/philox.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/confirm_start.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/support/relative_error.h"

namespace megacpp::testing_support {
namespace {

constexpr int64_t kDocumentBytes = 23;
constexpr double kRoundingError = 2e-6;  // relative
constexpr uint64_t kShakes = 6;          // each has about an even chance to fall off an edge

using Tensors = std::map<std::string, std::vector<float>>;  // whole, by name

struct TrainingRun {
  std::vector<train::StepReport> steps;
  Tensors parameters;                       // after the last step
  Tensors moments;                          // the same: all that the optimizer keeps
  std::vector<runtime::ChipMemory> memory;  // [chip]
};

data::TextCorpus short_documents() {
  data::TextCorpus corpus = data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const auto size = static_cast<int64_t>(corpus.bytes.size());
  for (int64_t begin = kDocumentBytes; begin < size; begin += kDocumentBytes) corpus.document_begins.push_back(begin);
  corpus.files.resize(corpus.document_begins.size(), corpus.files.front());
  return corpus;
}

/// Every weight is off by a rounding error, up or down as `shake` decides.
void shake_weights(const std::vector<blocks::Parameter>& parameters, train::RunState& state, uint64_t shake) {
  for (const blocks::Parameter& parameter : parameters) {
    const base::Philox random(shake, parameter.name);
    std::vector<float> weights = state.read<float>(parameter.name);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] *= static_cast<float>(random.uniform(i) < 0.5 ? 1 - kRoundingError : 1 + kRoundingError);
    state.write<float>(parameter.name, weights);
  }
}

/// The largest error comes first.
class Differences {
 public:
  void check(const std::string& what, double error, double tolerance) {
    if (error <= tolerance) return;  // NaN is a difference
    lines_.push_back({error, fmt::format("{} is off by {:.2e}, allowed is {:.0e}\n", what, error, tolerance)});
  }
  std::string text() {
    std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.error > b.error; });
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(lines_.size(), 6); ++i) text += lines_[i].text;
    return text + (lines_.size() > 6 ? fmt::format("and {} more\n", lines_.size() - 6) : "");
  }

 private:
  struct Line {
    double error;
    std::string text;
  };
  std::vector<Line> lines_;
};

double relative(double got, double wanted) { return std::fabs(got - wanted) / (wanted == 0 ? 1.0 : std::fabs(wanted)); }

void compare_steps(const train::StepReport& got, const train::StepReport& wanted, const Tolerances& tolerances,
                   Differences& differences) {
  const std::string step = fmt::format("step {}: ", wanted.step);
  const auto check = [&](const char* metric, std::optional<double> train::StepReport::*value, double tolerance) {
    const std::optional<double>&one = got.*value, &other = wanted.*value;
    const double only_one = one.has_value() == other.has_value() ? 0 : 1;
    differences.check(step + metric, one && other ? relative(*one, *other) : only_one, tolerance);
  };
  check("loss", &train::StepReport::loss, tolerances.losses);
  check("cross-entropy", &train::StepReport::cross_entropy, tolerances.losses);
  check("balance loss", &train::StepReport::balance, tolerances.losses);
  check("dropped requests", &train::StepReport::dropped, tolerances.dropped);
  check("gradient norm", &train::StepReport::grad_norm, tolerances.norms);
}

std::set<std::string> optimizer_state(const compile::Compiled& compiled) {
  std::set<std::string> names;
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const compile::Program& program : stage.programs)
      for (const ir::NodeId id : program.graph.inputs())
        if (const ir::Node& node = program.graph.node(id); node.role == ir::Role::optimizer)
          names.insert(node.attrs.text("name"));
  return names;
}

/// A shake above 0 shakes the initial weights.
TrainingRun train_recipe(recipe::Recipe recipe, const runtime::Backend& backend, uint64_t shake = 0) {
  recipe.backend = backend.name;
  recipe.train.log_every = 1;
  static const data::TextCorpus corpus = short_documents();
  const data::Batches batches(corpus, train::batch_options(recipe));
  const plan::Plan plan = plan::make_plan(recipe);
  const compile::Compiled compiled =
      compile::compile_training(plan, runtime::target_on(backend, recipe::run_request(recipe), plan.parallel.mesh));
  const auto run = runtime::load_on(backend, recipe::run_request(recipe), compiled,
                                    runtime::load_options(recipe::run_request(recipe), compiled.mesh.chips()));
  train::confirm_start(plan, compiled, *run);
  train::RunState state(compiled, *run);
  state.initialise_weights(static_cast<uint64_t>(recipe.train.seed));
  if (shake > 0) shake_weights(compiled.parameters, state, shake);
  TrainingRun result{
      .steps = train::train({recipe, compiled, batches, *run}), .parameters = {}, .moments = {}, .memory = {}};
  for (const blocks::Parameter& parameter : compiled.parameters)
    result.parameters[parameter.name] = state.read<float>(parameter.name);
  for (const std::string& name : optimizer_state(compiled)) result.moments[name] = state.read<float>(name);
  for (const int64_t chip : run->local_chips()) result.memory.push_back(run->memory(chip));
  return result;
}

void compare_tensors(const Tensors& got, const Tensors& wanted, double tolerance, Differences& differences) {
  for (const auto& [name, values] : wanted) {
    const auto ours = got.find(name);
    differences.check(name, ours == got.end() ? INFINITY : relative_error(ours->second, values), tolerance);
  }
}

std::string difference(const TrainingRun& got, const TrainingRun& wanted, const Tolerances& tolerances) {
  Differences differences;
  differences.check("number of steps",
                    relative(static_cast<double>(got.steps.size()), static_cast<double>(wanted.steps.size())), 0);
  for (size_t i = 0; i < std::min(got.steps.size(), wanted.steps.size()); ++i)
    compare_steps(got.steps[i], wanted.steps[i], tolerances, differences);
  compare_tensors(got.parameters, wanted.parameters, tolerances.parameters, differences);
  compare_tensors(got.moments, wanted.moments, tolerances.moments, differences);
  return differences.text();
}

std::string memory_surprises(const TrainingRun& run) {
  std::string text;
  for (size_t chip = 0; chip < run.memory.size(); ++chip) {
    const runtime::ChipMemory& memory = run.memory[chip];
    if (memory.measured_peak_bytes != memory.planned_peak_bytes || memory.used_bytes != memory.planned_peak_bytes)
      text += fmt::format("chip {} used {} bytes and held {}, planned were {}\n", chip,
                          memory.measured_peak_bytes.value_or(-1), memory.used_bytes.value_or(-1),
                          memory.planned_peak_bytes.value_or(-1));
  }
  return text;
}

/// Once for all recipes that differ in their layouts only.
const TrainingRun& one_chip_run(const recipe::Recipe& alone) {
  static std::deque<std::pair<recipe::Recipe, TrainingRun>> runs;
  for (const auto& [known, run] : runs)
    if (known == alone) return run;
  return runs.emplace_back(alone, train_recipe(alone, runtime::backend_named("cpu"))).second;
}

bool is_on_edge(const recipe::Recipe& alone, const TrainingRun& run, const Tolerances& tolerances) {
  for (uint64_t shake = 1; shake <= kShakes; ++shake)
    if (!difference(train_recipe(alone, runtime::backend_named("cpu"), shake), run, tolerances).empty()) return true;
  return false;
}

Comparison compare(const TrainingRun& got, const recipe::Recipe& recipe, const Tolerances& tolerances) {
  recipe::Recipe alone = recipe;
  alone.layout = {};
  const TrainingRun& wanted = one_chip_run(alone);
  const std::string differs = difference(got, wanted, tolerances);
  return {differs, !differs.empty() && is_on_edge(alone, wanted, tolerances)};
}

}  // namespace

Comparison compare_with_one_chip(const recipe::Recipe& recipe) {
  const TrainingRun got = train_recipe(recipe, runtime::backend_named("cpu"));
  Comparison comparison = compare(got, recipe, {});
  comparison.problems += memory_surprises(got);
  return comparison;
}

Comparison compare_with_one_chip(const recipe::Recipe& recipe, const runtime::Backend& backend,
                                 const Tolerances& tolerances) {
  return compare(train_recipe(recipe, backend), recipe, tolerances);
}

std::string compare_with_one_process(const recipe::Recipe& recipe, const runtime::Backend& backend,
                                     const Tolerances& tolerances) {
  static std::pair<recipe::Recipe, TrainingRun> last;  // of all backends that one recipe is trained on
  if (last.second.steps.empty() || !(last.first == recipe))
    last = {recipe, train_recipe(recipe, runtime::backend_named("cpu"))};
  const TrainingRun got = train_recipe(recipe, backend);
  return difference(got, last.second, tolerances) + memory_surprises(got);
}

std::vector<std::string> overrides_of(std::string_view words) {
  std::vector<std::string> overrides;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;)
    overrides.push_back(word.find('.') < word.find('=') ? word : "layout." + word);
  return overrides;
}

std::string test_name(std::string_view words) {
  std::string name;
  for (const std::string& word : overrides_of(words)) {
    const size_t dot = word.rfind('.', word.find('='));
    std::string key = word.substr(dot + 1, word.find('=') - dot - 1), value = word.substr(word.find('=') + 1);
    const bool is_number = std::isdigit(static_cast<unsigned char>(value.front())) != 0;
    if (is_number && key.ends_with("_parallel")) key.resize(key.size() - std::string_view("_parallel").size());
    name += (name.empty() ? "" : "_") + key + (is_number ? "" : "_") + value;
  }
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace megacpp::testing_support
