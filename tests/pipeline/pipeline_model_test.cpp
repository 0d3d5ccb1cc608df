// SPDX-License-Identifier: Apache-2.0
// Small models as pipelines: stage after stage, and a whole step along each schedule, equals the graph in one piece.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "megacpp/program/autodiff/differentiate.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/partition/cut_stages.h"
#include "megacpp/program/partition/split_passes.h"
#include "megacpp/program/plan/pipeline_schedule.h"
#include "tests/support/model_inputs.h"
#include "tests/support/small_models.h"

namespace megacpp::partition {
namespace {

using ir::ValueId;
using ops::Tensor;
using testing_support::is_close;
using Tensors = std::map<std::string, Tensor>;

constexpr int64_t kMostStages = 4;

// The small models, tiled to at least as many blocks as stages.
std::vector<recipe::Model> deep_models() {
  std::vector<recipe::Model> models = testing_support::small_models();
  for (recipe::Model& model : models) model.depth = kMostStages;
  return models;
}

model::ForwardModel built(const recipe::Model& model, ir::DType compute = ir::DType::f32) {
  return model::build_forward(model, {.sequences = 2, .length = 6, .compute = compute});
}

void merge(Tensors& into, Tensors from) {
  for (auto& [name, tensor] : from) into[name] = std::move(tensor);
}

void expect_equal(const Tensors& got, const Tensors& wanted, double tolerance) {
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(got.count(name)) << name;
    EXPECT_TRUE(is_close(got.at(name), tensor, tolerance)) << name;
  }
}

TEST(PipelineModelTest, StagesInTurnEqualTheWholeForward) {
  for (const recipe::Model& config : deep_models()) {
    const model::ForwardModel forward = built(config);
    const Tensors inputs = testing_support::model_inputs(forward.graph, forward.parameters, config.vocab);
    const Tensors wanted = ops::evaluate(forward.graph, inputs);
    for (int64_t stages = 2; stages <= kMostStages; ++stages) {
      SCOPED_TRACE(config.name + " in " + std::to_string(stages));
      const StageCut cut = cut_stages(forward.graph, forward.loss, balanced_cuts(forward.graph, stages));
      ASSERT_EQ(cut.stages.size(), static_cast<size_t>(stages));
      Tensors values = inputs;
      for (const Stage& stage : cut.stages) {
        ops::verify(stage.graph, ops::Form::built);
        merge(values, ops::evaluate(stage.graph, values));
      }
      expect_equal(values, wanted, 0);
    }
  }
}

TEST(PipelineModelTest, TiedEmbeddingIsTheOnlySharedWeight) {
  for (const recipe::Model& config : deep_models()) {
    const model::ForwardModel forward = built(config);
    const StageCut cut = cut_stages(forward.graph, forward.loss, balanced_cuts(forward.graph, 3));
    const std::vector<SharedWeight> tied = {{"embed.weight", {0, 2}}};
    EXPECT_EQ(cut.shared, config.tie_embeddings ? tied : std::vector<SharedWeight>{}) << config.name;
  }
}

using Carried = std::vector<std::pair<ir::Shape, bool>>;  // shape, has a gradient

Carried carried_from(const recipe::Model& config) {
  const model::ForwardModel forward = built(config);
  const Stage stage = cut_stages(forward.graph, forward.loss, {1}).stages[0];
  Carried carried;
  for (const Carry& carry : stage.carried_out)
    carried.push_back({stage.graph.type(*stage.graph.find_output(carry.name)).shape, carry.has_gradient});
  return carried;
}

TEST(PipelineModelTest, ResidualAndRouterStatisticsAreAllThatIsCarried) {
  EXPECT_EQ(carried_from(testing_support::small_model("hybrid", "AEMR")), (Carried{{{2, 6, 8}, true}}));
  recipe::Model experts = testing_support::with_experts("experts", blocks::RoutedBy::tokens, 1.0);
  experts.depth = 2;
  // Dropped tokens are a count; the balance and z losses so far are trained through.
  EXPECT_EQ(carried_from(experts), (Carried{{{}, true}, {{}, true}, {{}, false}, {{2, 6, 8}, true}}));
}

// ---- Training ----

std::string cotangent_name(const Carry& carry) { return std::string(kCotangentPrefix) + carry.name; }

struct TrainingGraph {
  ir::Graph graph;
  size_t forward_nodes = 0;
};

// Appends the backward pass of one stage: cotangents of what it carries out enter, those of what was carried in leave,
// gradients of weights are added to state.
TrainingGraph training_graph(const Stage& stage, const autodiff::Options& options = {}) {
  TrainingGraph training{.graph = stage.graph, .forward_nodes = stage.graph.nodes().size()};
  ir::Graph& graph = training.graph;
  ops::Builder builder(graph);
  std::vector<std::pair<ValueId, ValueId>> seeds;
  if (const auto loss = graph.find_output("loss")) seeds.push_back({*loss, builder.constant(0.25)});
  for (const Carry& carry : stage.carried_out) {
    if (!carry.has_gradient) continue;
    const ValueId value = *graph.find_output(carry.name);
    seeds.push_back({value, builder.input(cotangent_name(carry), graph.type(value), ir::Role::activation)});
  }
  std::vector<ValueId> targets;
  std::vector<std::string> names;
  for (const Carry& carry : stage.carried_in) {
    if (!carry.has_gradient) continue;
    targets.push_back(*graph.find_input(carry.name));
    names.push_back(cotangent_name(carry));
  }
  const size_t cotangents = targets.size();
  for (const ir::NodeId id : graph.inputs()) {
    if (graph.node(id).role != ir::Role::weight) continue;
    targets.push_back(graph.node(id).results[0]);
    names.push_back("grad." + graph.node(id).attrs.text("name"));
  }
  const std::vector<ValueId> gradients = autodiff::differentiate(graph, seeds, targets, options);
  for (size_t i = 0; i < names.size(); ++i) {
    if (i < cotangents) {
      graph.add_output({.name = names[i], .value = gradients[i]});
    } else {
      const ValueId total = builder.input(names[i], graph.type(gradients[i]), ir::Role::gradient);
      graph.add_output({.name = names[i], .value = builder.add(total, gradients[i]), .donated = names[i]});
    }
  }
  ops::verify(graph, ops::Form::built);
  return training;
}

// Each stage by itself: forward, then backward, with only kept values handed over.
void expect_passes_equal(const TrainingGraph& training, Backward backward, double vocab) {
  Tensors inputs = testing_support::random_inputs(training.graph, "passes", vocab);
  const Tensors wanted = ops::evaluate(training.graph, inputs);
  Tensors outputs;
  for (const Part& part : split_passes(training.graph, training.forward_nodes, backward).parts) {
    ops::verify(part.graph, ops::Form::built);
    for (auto& [name, tensor] : ops::evaluate(part.graph, inputs)) {
      Tensors& to = name.starts_with("kept.") ? inputs : outputs;
      EXPECT_TRUE(to.emplace(name, std::move(tensor)).second) << name << " is made twice";
    }
  }
  EXPECT_EQ(outputs.size(), wanted.size());
  expect_equal(outputs, wanted, 0);
}

TEST(PipelineModelTest, PassesInTurnEqualTheStageInOnePiece) {
  using autodiff::Recompute;
  for (const recipe::Model& config : deep_models())
    for (const ir::DType compute : {ir::DType::f32, ir::DType::bf16}) {
      const model::ForwardModel forward = built(config, compute);
      const StageCut cut = cut_stages(forward.graph, forward.loss, balanced_cuts(forward.graph, 3));
      for (size_t s = 0; s < cut.stages.size(); ++s) {
        SCOPED_TRACE(config.name + " stage " + std::to_string(s));
        const Recompute policy = std::vector{Recompute::none, Recompute::selective, Recompute::full}[s];
        const TrainingGraph training =
            training_graph(cut.stages[s], {.recompute = {{"A", policy}, {"E", policy}, {"M", policy}, {"R", policy}}});
        expect_passes_equal(training, Backward::whole, static_cast<double>(config.vocab));
        expect_passes_equal(training, Backward::in_two_parts, static_cast<double>(config.vocab));
      }
    }
}

TEST(PipelineModelTest, NothingMadeOfWeightsAloneIsKept) {
  const model::ForwardModel forward = built(testing_support::small_model("hybrid", "AEMR"), ir::DType::bf16);
  const StageCut cut = cut_stages(forward.graph, forward.loss, {2});
  for (const Stage& stage : cut.stages) {
    const TrainingGraph training = training_graph(stage);
    const std::vector<bool> alone = depends_on_inputs_alone(training.graph);
    const Divided passes = split_passes(training.graph, training.forward_nodes, Backward::in_two_parts);
    EXPECT_FALSE(passes.crossings.empty());
    for (const Crossing& kept : passes.crossings)
      EXPECT_FALSE(alone[training.graph.value(kept.value).producer.index]) << kept.name;
  }
}

bool is_gradient(const std::string& name) { return name.starts_with("grad."); }

// A step run by the reference evaluator along a schedule. What a slot would hold is held per (model stage, micro).
class Pipeline {
 public:
  Pipeline(std::vector<Divided> passes, const plan::PipelineSchedule& schedule, Tensors weights,
           std::vector<Tensors> batches)
      : passes_(std::move(passes)), schedule_(schedule), weights_(std::move(weights)), batches_(std::move(batches)) {
    gradients_.resize(passes_.size());
  }

  // Any order that respects each stage's list will do: a step whose inputs are not there yet waits.
  void run() {
    std::vector<size_t> next(schedule_.steps.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < next.size(); ++stage)
        for (; next[stage] < schedule_.steps[stage].size(); ++next[stage], moved = true)
          if (!run_step(stage, schedule_.steps[stage][next[stage]])) break;
    }
    for (size_t stage = 0; stage < next.size(); ++stage) ASSERT_EQ(next[stage], schedule_.steps[stage].size());
  }

  // Gradients of each weight, added up over the stages that share it; other outputs by (micro, name).
  Tensors total_gradients() const {
    Tensors totals;
    for (const Tensors& of_stage : gradients_)
      for (const auto& [name, tensor] : of_stage) {
        if (!totals.count(name)) totals[name] = Tensor::zeros(tensor.type);
        for (int64_t i = 0; i < tensor.elements(); ++i) totals[name][i] += tensor[i];
      }
    return totals;
  }
  const Tensors& outputs(size_t micro) const { return batches_[micro]; }

 private:
  bool run_step(size_t stage, const plan::Step& step) {
    const size_t model_stage = static_cast<size_t>(step.chunk) * schedule_.steps.size() + stage;
    const size_t micro = static_cast<size_t>(step.micro);
    const size_t program = step.kind == plan::StepKind::forward           ? 0
                           : step.kind == plan::StepKind::backward_weight ? 2
                                                                          : 1;
    const ir::Graph& graph = passes_[model_stage].parts[program].graph;
    Tensors inputs;
    for (const ir::NodeId id : graph.inputs()) {
      const std::string& name = graph.node(id).attrs.text("name");
      const std::optional<Tensor> tensor = find(model_stage, micro, name, graph.type(graph.node(id).results[0]));
      if (!tensor) return false;
      inputs[name] = *tensor;
    }
    for (auto& [name, tensor] : ops::evaluate(graph, inputs)) store(model_stage, micro, name, std::move(tensor));
    return true;
  }

  std::optional<Tensor> find(size_t model_stage, size_t micro, const std::string& name, const ir::TensorType& type) {
    if (is_gradient(name)) return gradients_[model_stage].try_emplace(name, Tensor::zeros(type)).first->second;
    if (const auto weight = weights_.find(name); weight != weights_.end()) return weight->second;
    if (const auto own = held_.find({model_stage, micro, name}); own != held_.end()) return own->second;
    const auto batch = batches_[micro].find(name);
    return batch == batches_[micro].end() ? std::nullopt : std::optional(batch->second);
  }

  void store(size_t model_stage, size_t micro, const std::string& name, Tensor tensor) {
    if (is_gradient(name)) {
      gradients_[model_stage][name] = std::move(tensor);
    } else if (name.starts_with("carry.")) {
      held_[{model_stage + 1, micro, name}] = std::move(tensor);
    } else if (name.starts_with(kCotangentPrefix)) {
      held_[{model_stage - 1, micro, name}] = std::move(tensor);
    } else if (name.starts_with("kept.")) {
      held_[{model_stage, micro, name}] = std::move(tensor);
    } else {
      batches_[micro][name] = std::move(tensor);
    }
  }

  std::vector<Divided> passes_;  // by model stage
  const plan::PipelineSchedule& schedule_;
  Tensors weights_;
  std::vector<Tensors> batches_;    // by micro: batch inputs, later the outputs too
  std::vector<Tensors> gradients_;  // by model stage
  std::map<std::tuple<size_t, size_t, std::string>, Tensor> held_;
};

// The same step with the graph in one piece.
struct Whole {
  Tensors gradients;
  std::vector<Tensors> outputs;  // by micro
};

Whole run_whole(const model::ForwardModel& forward, const Tensors& weights, const std::vector<Tensors>& batches) {
  const TrainingGraph training = training_graph(cut_stages(forward.graph, forward.loss, {}).stages[0]);
  Whole whole;
  for (const ir::NodeId id : training.graph.inputs()) {
    const ir::Node& node = training.graph.node(id);
    const std::string& name = node.attrs.text("name");
    if (is_gradient(name)) whole.gradients[name] = Tensor::zeros(training.graph.type(node.results[0]));
  }
  for (const Tensors& batch : batches) {
    Tensors inputs = weights;
    merge(inputs, batch);
    merge(inputs, whole.gradients);
    whole.outputs.emplace_back();
    for (auto& [name, tensor] : ops::evaluate(training.graph, inputs))
      (is_gradient(name) ? whole.gradients : whole.outputs.back())[name] = std::move(tensor);
  }
  return whole;
}

struct Step {
  Tensors weights;
  std::vector<Tensors> batches;  // by micro
};

Step draw_step(const recipe::Model& config, const model::ForwardModel& forward, size_t micros) {
  Step step;
  for (auto& [name, tensor] : testing_support::model_inputs(forward.graph, forward.parameters, config.vocab))
    if (!name.starts_with("batch.")) step.weights[name] = std::move(tensor);
  for (size_t micro = 0; micro < micros; ++micro) {
    Tensors batch;
    for (auto& [name, tensor] : testing_support::random_inputs(forward.graph, "micro" + std::to_string(micro),
                                                               static_cast<double>(config.vocab)))
      if (name.starts_with("batch.")) batch[name] = std::move(tensor);
    step.batches.push_back(std::move(batch));
  }
  return step;
}

TEST(PipelineModelTest, AStepAlongAnyScheduleEqualsTheWholeGraph) {
  for (const recipe::Model& config : deep_models()) {
    const model::ForwardModel forward = built(config);
    const Step step = draw_step(config, forward, 3);
    const Whole wanted = run_whole(forward, step.weights, step.batches);
    for (const auto& [kind, name, doc] : words_of(recipe::StageSchedule{})) {
      SCOPED_TRACE(config.name + " " + std::string(name));
      const plan::PipelineShape shape{
          .stages = 2, .micros = 3, .chunks = kind == recipe::StageSchedule::interleaved ? 2 : 1};
      const plan::PipelineSchedule schedule = plan::build_schedule(kind, shape);
      const Backward backward = kind == recipe::StageSchedule::zero_bubble ? Backward::in_two_parts : Backward::whole;
      std::vector<Divided> passes;
      const std::vector<int64_t> cuts = balanced_cuts(forward.graph, shape.stages * shape.chunks);
      for (const Stage& stage : cut_stages(forward.graph, forward.loss, cuts).stages) {
        const TrainingGraph training = training_graph(stage);
        passes.push_back(split_passes(training.graph, training.forward_nodes, backward));
      }
      Pipeline pipeline(std::move(passes), schedule, step.weights, step.batches);
      pipeline.run();
      for (size_t micro = 0; micro < step.batches.size(); ++micro) {
        EXPECT_TRUE(std::isfinite(wanted.outputs[micro].at("loss")[0]));
        expect_equal(pipeline.outputs(micro), wanted.outputs[micro], 0);
      }
      // Tied weights add up in another order than in one graph; the rest is the same arithmetic.
      expect_equal(pipeline.total_gradients(), wanted.gradients, config.tie_embeddings ? 1e-6 : 0);
    }
  }
}

}  // namespace
}  // namespace megacpp::partition
