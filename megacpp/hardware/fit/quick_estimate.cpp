// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/quick_estimate.h"

#include <algorithm>
#include <exception>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "megacpp/core/ir/fold_blocks.h"
#include "megacpp/hardware/fit/axis_link.h"
#include "megacpp/hardware/fit/pipeline_time.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr double kStateBytes = 4;  // of an element: gradients and weights travel in f32 where the update moves them

constexpr double kWeightsOfBlock = 6;  // gathered one by one, about
constexpr double kWholeStreams = 2;    // of a block under tensor splits: what it reads, and its gradient, gathered

/// Sequences of the twins. The first is the least a chip has; with the second, what weights take for a moment is little
/// beside the activations, so that the difference of the two is the sequences' own.
constexpr int64_t kFewSequences = 1, kManySequences = 8;

double number(int64_t value) { return static_cast<double>(value); }

/// Two depths that differ by one period of the pattern and from the model's by whole periods, so that the difference
/// of the twins has every letter as often as a period does. Of a model that is shallower than its pattern the period is
/// the whole of it.
struct Depths {
  int64_t shallow, deep;
};
int64_t period_of(const recipe::Model& model) {
  const int64_t letters = static_cast<int64_t>(std::ranges::count_if(model.pattern, [](char c) { return c != '|'; }));
  return std::min(letters, model.depth);
}
Depths depths_of(const recipe::Model& model) {
  const int64_t period = period_of(model);
  const int64_t shallow = model.depth < 2 * period ? model.depth : period + model.depth % period;
  return {shallow, shallow + period};
}

/// The model at another depth and batch, on one chip.
Recipe twin_of(const Recipe& recipe, int64_t depth, int64_t batch) {
  Recipe twin = recipe;
  std::erase(twin.model.pattern, '|');
  twin.model.pattern.resize(static_cast<size_t>(period_of(recipe.model)));
  twin.model.depth = depth;
  twin.layout = {};
  twin.train.batch = batch;
  twin.train.micro_steps = 1;
  return twin;
}

/// What is held beside weights, gradients and optimizer state.
double live_bytes(const memory::MemoryPlan& plan) {
  int64_t bytes = plan.total_bytes;
  for (const memory::RoleBytes& role : memory::bytes_by_role(plan))
    if (role.role == ir::Role::weight || role.role == ir::Role::gradient || role.role == ir::Role::optimizer)
      bytes -= role.bytes;
  return number(bytes);
}

/// What every plan has beside anything else. Second copies of weights come and go, and gradients whose reduction waits
/// are sharded as they come: neither is sure. A compiler that places buffers itself may use gradients up as they come.
double least_bytes(const plan::StateBytes& state, const plan::Plan& plan, bool is_placed_elsewhere) {
  const bool has_gradients = !plan.gradients_wait && !is_placed_elsewhere;
  return number(state.weights + state.optimizer + (has_gradients ? state.gradients : 0));
}

/// Part of its bytes that each of a group of n passes on.
double passed_on(int64_t n) { return number(n - 1) / number(n); }

/// Bytes or seconds of one twin, by its batch.
struct ByBatch {
  double few, many;

  double of_sequence() const { return (many - few) / static_cast<double>(kManySequences - kFewSequences); }
  double of_none() const { return few - of_sequence() * static_cast<double>(kFewSequences); }
};

}  // namespace

QuickEstimator::QuickEstimator(const Recipe& recipe, const Assumptions& assumptions, base::ThreadPool& pool)
    : recipe_(recipe),
      assumptions_(assumptions),
      element_bytes_(number(ir::dtype_bytes(recipe.train.precision))),
      parameters_(alike_parameters(recipe.model)) {
  for (const auto& [parameter, count] : parameters_) {
    const bool of_experts = std::ranges::find(parameter.dims, blocks::Dim::experts) != parameter.dims.end();
    (of_experts ? expert_elements_ : dense_elements_) += number(count * ir::num_elements(parameter.shape));
  }
  const std::array<TwinsOfLevel, 3> twins = compile_twins(pool);
  std::ranges::transform(twins, costs_.begin(), [this](const TwinsOfLevel& of_level) { return cost_of(of_level); });
}

std::vector<QuickEstimator::Alike> QuickEstimator::alike_parameters(const recipe::Model& model) {
  std::vector<Alike> alike;
  std::map<std::tuple<std::string, ir::Shape, bool, bool>, size_t> known;
  for (blocks::Parameter& parameter : model::parameters_of(model)) {
    const auto [at, is_new] = known.try_emplace(
        {ir::fold_blocks(parameter.name), parameter.shape, parameter.trainable, parameter.frozen}, alike.size());
    if (is_new) alike.push_back({.parameter = std::move(parameter)});
    ++alike[at->second].count;
  }
  return alike;
}

plan::StateBytes QuickEstimator::state_bytes(const plan::Plan& plan) const {
  plan::StateBytes sum;
  for (const auto& [parameter, count] : parameters_) {
    const plan::StateBytes one = plan::state_bytes(plan, std::span(&parameter, 1));
    sum.weights += count * one.weights;
    sum.kept += count * one.kept;
    sum.gradients += count * one.gradients;
    sum.optimizer += count * one.optimizer;
  }
  return sum;
}

QuickEstimator::Twin QuickEstimator::compile_twin(recipe::RecomputeLevel recompute, int64_t depth,
                                                  int64_t batch) const {
  Recipe recipe = twin_of(recipe_, depth, batch);
  for (const char letter : recipe::recompute_letters(recipe.model)) recipe.train.recompute[letter] = recompute;
  compile::Compiled compiled = compile::compile_training(plan::PlannedRecipe(recipe).plan(), target_on(assumptions_),
                                                         {.verify = compile::Verify::result});
  Twin twin{.bytes = live_bytes(compiled.largest().memory)};
  for (const blocks::Parameter& parameter : compiled.parameters)
    twin.elements += number(ir::num_elements(parameter.shape));
  const double whole = predict_step(compiled, assumptions_, recipe.train.precision).seconds();
  compile::StagePrograms& chip = compiled.stages[0];
  std::erase_if(chip.step, [&chip](const compile::Action& action) {
    return chip.kind_of(action) == compile::ProgramKind::update;
  });
  twin.micro_seconds = predict_step(compiled, assumptions_, recipe.train.precision).seconds();
  twin.update_seconds = whole - twin.micro_seconds;
  return twin;
}

std::array<QuickEstimator::TwinsOfLevel, 3> QuickEstimator::compile_twins(base::ThreadPool& pool) const {
  const Depths depths = depths_of(recipe_.model);
  const std::array<int64_t, 2> depth_of = {depths.shallow, depths.deep}, batch_of = {kFewSequences, kManySequences};
  std::array<TwinsOfLevel, 3> twins;
  constexpr size_t kTwins = std::tuple_size_v<decltype(twins)> * 2 * 2;
  std::array<std::exception_ptr, kTwins> failed;
  pool.for_each(static_cast<int64_t>(kTwins), [&](int64_t job, int) {
    const size_t at = static_cast<size_t>(job), level = at / 4, depth = at / 2 % 2, batch = at % 2;
    try {
      twins[level][depth][batch] = compile_twin(kRecomputeLevels[level], depth_of[depth], batch_of[batch]);
    } catch (...) {
      failed[at] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  return twins;
}

QuickEstimator::Cost QuickEstimator::cost_of(const TwinsOfLevel& twins) const {
  const std::array<Twin, 2>&shallow_twins = twins[0], &deep_twins = twins[1];
  const Twin &shallow = shallow_twins[0], &deep = deep_twins[0];
  const Depths depths = depths_of(recipe_.model);
  const auto amount = [&](double Twin::*field) {
    const ByBatch at_shallow{shallow_twins[0].*field, shallow_twins[1].*field};
    const ByBatch at_deep{deep_twins[0].*field, deep_twins[1].*field};
    Amount found;
    found.per_sequence_and_block =
        std::max(0.0, at_deep.of_sequence() - at_shallow.of_sequence()) / number(depths.deep - depths.shallow);
    // Letters of an unfinished period may cost less than the mean block, and so leave less than nothing beside them.
    found.per_sequence = at_shallow.of_sequence() - found.per_sequence_and_block * number(depths.shallow);
    found.per_element = std::max(0.0, at_deep.of_none() - at_shallow.of_none()) / (deep.elements - shallow.elements);
    found.besides = at_shallow.of_none() - found.per_element * shallow.elements;
    return found;
  };
  return {.bytes = amount(&Twin::bytes),
          .seconds = amount(&Twin::micro_seconds),
          .update_seconds = deep.update_seconds / deep.elements};
}

double QuickEstimator::traffic_seconds(const LayoutChoice& c, const plan::Plan& plan, double held,
                                       double compute) const {
  const ir::Mesh& mesh = plan.parallel.mesh;
  using Route = ops::Transfer::Route;
  const auto seconds = [&](Route route, double bytes, double calls, const ir::Axes& axes) {
    return link_along(assumptions_.slice, mesh, axes).seconds(route, bytes, calls);
  };
  const double steps = number(c.micro_steps), blocks = number(recipe_.model.depth) / number(c.pipeline);
  const double tokens =
      number(c.batch * c.micro_steps) * number(recipe_.train.sequence) / number(c.data * c.expert * c.context);
  const double stream = tokens * number(recipe_.model.hidden) * element_bytes_;  // of a step, before tensor splits

  // Into and out of every block, forward and backward.
  double waiting = 0;
  if (c.tensor > 1)
    waiting += seconds(Route::ring, 4 * stream * passed_on(c.tensor) * blocks, 4 * steps * blocks,
                       ir::axes_named(mesh, "model"));
  for (const recipe::BlockType& type : recipe::block_types(recipe_.model)) {
    const blocks::Traits traits = type.traits();
    const double of_type = number(type.blocks) / number(c.pipeline);
    if (c.expert > 1 && traits.router.experts > 0) {
      const double sent = stream * number(traits.router.top_k) / number(c.tensor) * passed_on(c.expert);
      waiting += seconds(Route::all_pairs, 4 * sent * of_type, 4 * steps * of_type, ir::axes_named(mesh, "expert"));
    }
    if (c.context > 1) {
      const double keys = tokens * number(traits.ring_elements) * element_bytes_ / number(c.tensor);
      const double turns = number(c.context - 1) * of_type;  // to the next chip, as often as there are others
      waiting += seconds(Route::one_peer, 3 * keys * turns, 4 * steps * turns, ir::axes_named(mesh, "context"));
    }
  }
  // Weights and gradients travel beside the work.
  const double part = passed_on(mesh.size(plan.copies));
  double bytes = kStateBytes * held * part * (c.zero >= 2 ? steps : 1);  // gradients
  bytes += c.zero == 3 ? 2 * element_bytes_ * held * part * steps : kStateBytes * held * part;
  const double calls = c.zero == 3 ? 3 * kWeightsOfBlock * blocks * steps : 2;
  return waiting + std::max(0.0, seconds(Route::ring, bytes, calls, plan.copies) - compute);
}

// Parts of the model are taken to be alike, backward twice as long as forward.
double QuickEstimator::bubble_share(const plan::Plan& plan, int64_t micro_steps) {
  const auto [at, is_new] = bubbles_.try_emplace({plan.stages, micro_steps}, 0.0);
  if (!is_new || plan.stages == 1) return at->second;
  const plan::PipelineShape shape{.stages = plan.stages, .micros = micro_steps, .chunks = plan.layout->virtual_stages};
  const std::vector<StageWork> stages = even_work(plan::build_schedule(plan.layout->schedule, shape), {});
  return at->second = pipeline_seconds(stages) / stages[0].busy() - 1;
}

std::array<QuickEstimate, 3> QuickEstimator::estimates(const LayoutChoice& c) {
  const plan::Plan plan = plan::changed_plan(recipe_, plan::overrides_of(changes_for(recipe_, c))).value();
  const double depth = number(recipe_.model.depth), sharing = number(c.tensor * c.context);
  const double stages = number(c.pipeline), steps = number(c.micro_steps), split = number(c.tensor) * stages;
  const double chip_batch = number(c.batch) / number(c.data * c.expert);
  const double in_flight = number(std::min(c.pipeline, c.micro_steps));
  const double held = (dense_elements_ + expert_elements_ / number(c.expert)) / split;
  plan::StateBytes held_state = state_bytes(plan);
  // In the host's memory. Layouts are ranked here, so activations there, and the time of copies, are left to the
  // estimates of those that come first: all layouts of a recipe offload alike.
  if (plan.layout->offloads_state()) held_state.optimizer = 0;
  const double state = number(held_state.total()) / stages;
  const double least = least_bytes(held_state, plan, static_cast<bool>(assumptions_.reserve)) / stages;
  const double stream = number(recipe_.train.sequence * recipe_.model.hidden) * element_bytes_;  // of a sequence
  const double whole = kWholeStreams * passed_on(c.tensor) * chip_batch / number(c.context) * stream;
  const double bubble = bubble_share(plan, c.micro_steps);

  std::array<QuickEstimate, 3> found;
  std::ranges::transform(costs_, found.begin(), [&](const Cost& cost) {
    // With zero 3 a block's weights are there while it runs, those of the next one with them.
    const double copies =
        c.zero == 3 ? held * std::min(1.0, 2 * stages / depth) * element_bytes_ : held * cost.bytes.per_element;
    const double activations =
        chip_batch / sharing *
        (cost.bytes.per_sequence + cost.bytes.per_sequence_and_block * depth * in_flight / stages);
    const double of_sequences = chip_batch / sharing * cost.seconds.of_sequence(depth) / stages;
    const double of_weights = held * cost.seconds.per_element + cost.seconds.besides / split;
    const double work = steps * (of_sequences + of_weights);
    const int64_t updating = c.zero == 0 ? 1 : plan.parallel.mesh.size(plan.copies);  // share an update between them
    const double update = cost.update_seconds * held / number(updating);
    const double once = work + traffic_seconds(c, plan, held, work);
    return QuickEstimate{.least = least,
                         .state = state,
                         .bytes = state + copies + cost.bytes.besides / split + activations + whole,
                         .seconds = once * (1 + bubble) + update};
  });
  return found;
}

}  // namespace megacpp::fit
