// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/compile.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/compile/pipeline.h"
#include "megacpp/compile/training_graph.h"
#include "megacpp/ir/text.h"
#include "megacpp/memory/report.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/verify.h"
#include "megacpp/optim/update.h"
#include "megacpp/partition/split_passes.h"
#include "megacpp/plan/pipeline_schedule.h"
#include "megacpp/plan/plan.h"
#include "megacpp/plan/spread.h"
#include "megacpp/schedule/bucket_collectives.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/narrow_gathers.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/overlap_collectives.h"
#include "megacpp/schedule/remove_dead.h"
#include "megacpp/schedule/widen_products.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;

// Runs stages in order over a list of programs: times, verifies and dumps each one's result.
class Pipeline {
 public:
  Pipeline(Compiled& compiled, std::optional<Dump> dump) : compiled_(compiled), dump_(std::move(dump)) {
    if (dump_) base::make_folder(dump_->folder);
  }

  std::vector<Graph>& programs() { return programs_; }

  void stage(const std::string& name, ops::Form leaves, const std::function<void(std::vector<Graph>&)>& body) {
    const auto start = std::chrono::steady_clock::now();
    body(programs_);
    finish(name, start);
    for (const Graph& graph : programs_) ops::verify(graph, leaves);
    if (!dump_) return;
    std::string text;
    for (const Graph& graph : programs_) text += ir::print(graph);
    base::write_file_atomically(dump_->folder / (name + ".ir"), text);
  }

  /// A pass that rewrites each program by itself.
  void pass(const std::string& name, ops::Form leaves, const std::function<Graph(const Graph&)>& rewrite) {
    stage(name, leaves, [&](std::vector<Graph>& programs) {
      for (Graph& graph : programs) graph = rewrite(graph);
    });
  }

  void plan_memory(const std::string& name, const schedule::Target& target) {
    const auto start = std::chrono::steady_clock::now();
    std::string text;
    for (StagePrograms& chip : compiled_.stages) {
      std::vector<const Graph*> graphs;
      for (const Graph& graph : chip.programs) graphs.push_back(&graph);
      chip.memory = memory::plan_memory(graphs, target);
      if (dump_) text += memory::to_text(chip.memory);
    }
    finish(name, start);
    if (dump_) base::write_file_atomically(dump_->folder / (name + ".txt"), text);
  }

 private:
  void finish(const std::string& name, std::chrono::steady_clock::time_point start) {
    size_t nodes = 0;
    for (const Graph& graph : programs_) nodes += graph.nodes().size();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    compiled_.passes.push_back({name, seconds, nodes});
  }

  Compiled& compiled_;
  std::optional<Dump> dump_;
  std::vector<Graph> programs_;
};

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const ir::Node& node : graph.nodes()) {
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    flops += ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
  }
  return flops;
}

// Inside the model the policy says what moves together. The update has all gradients and weights at hand: they go by
// size, in the order in which the backward pass makes gradients.
schedule::BucketPolicy bucket_policy(const plan::Plan& plan, bool is_update) {
  using Unit = schedule::BucketPolicy::Unit;
  schedule::BucketPolicy policy{
      .unit = Unit::bytes, .bytes = plan.layout.bucket_bytes, .start_multiple = plan::kBucketAlignment};
  if (is_update) {
    policy.order = schedule::BucketPolicy::Order::reversed;
  } else if (plan.gathers != plan::GatherUnit::bucket) {
    policy.unit = plan.gathers == plan::GatherUnit::block ? Unit::block : Unit::none;
  }
  return policy;
}

// From partitioned programs to scheduled ones: the same for every kind of run. The last `updates` programs are updates.
void lower(Compiled& compiled, Pipeline& pipeline, const schedule::Target& target, const plan::Plan& plan,
           size_t updates) {
  pipeline.pass("04-decompose", ops::Form::built, [&](const Graph& graph) {
    schedule::Decomposed result = schedule::decompose(schedule::remove_dead(graph), target);
    compiled.fallbacks.insert(compiled.fallbacks.end(), result.fallbacks.begin(), result.fallbacks.end());
    return std::move(result.graph);
  });
  if (target.schedules_itself) return;
  // Widening first: a product that is wide already can take the accumulator as its addend.
  pipeline.pass("05-fold", ops::Form::built,
                [](const Graph& graph) { return schedule::fold_accumulation(schedule::widen_products(graph)); });
  // Before fusion, which would tie readers of different collectives together.
  pipeline.stage("06-bucket", ops::Form::built, [&](std::vector<Graph>& programs) {
    for (size_t p = 0; p < programs.size(); ++p)
      programs[p] = schedule::bucket_collectives(programs[p], bucket_policy(plan, p + updates >= programs.size()));
  });
  pipeline.pass("07-fuse", ops::Form::fused, schedule::fuse);
  pipeline.pass("08-order", ops::Form::fused, schedule::order_for_low_peak);
  pipeline.pass("09-overlap", ops::Form::fused, [&](const Graph& graph) {
    return schedule::overlap_collectives(graph, {.prefetch = plan.layout.prefetch});
  });
}

void place_on(Compiled& compiled, const plan::Plan& plan) {
  compiled.mesh = plan.parallel.mesh;
  if (plan.parallel.balanced_order) compiled.time_order = plan.parallel.time_order(plan.parallel.sequence_chunks);
}

void finish(Compiled& compiled, Pipeline& pipeline, const schedule::Target& target) {
  if (!target.schedules_itself) pipeline.plan_memory("10-memory", target);
  for (StagePrograms& chip : compiled.stages) {
    std::vector<double> flops(chip.programs.size());
    std::ranges::transform(chip.programs, flops.begin(), flops_of);
    for (const Action& action : chip.step)
      if (!action.updates) chip.flops += flops[action.program];
  }
}

partition::Options partition_options(const plan::Plan& plan) {
  return {.max_replicated_bytes = plan.layout.max_replicated_bytes, .degree_keys = plan::degree_keys()};
}

// Inputs of a global program lie as they are annotated; outputs that are no state lie whole on every chip.
partition::Placements place_globally(const Graph& graph, const plan::Plan& plan, partition::Placements& inputs) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const ir::TensorType& type = graph.type(node.results[0]);
    const std::string text = node.attrs.text("sharding", "");
    const bool is_given = !text.empty() && text != partition::kAutoSharding;
    inputs.emplace(node.attrs.text("name"),
                   partition::Placement{
                       type, is_given ? ir::parse_sharding(text, mesh) : ir::Sharding::replicated(type.shape.size())});
  }
  partition::Placements outputs;
  for (const ir::Output& output : graph.outputs()) {
    const ir::TensorType& type = graph.type(output.value);
    outputs.emplace(output.name, partition::Placement{type, ir::Sharding::replicated(type.shape.size())});
  }
  return outputs;
}

// Every program of the run becomes the program of one chip. State lies in later programs as earlier ones leave it.
StagePrograms partition_programs(Pipeline& pipeline, const plan::Plan& plan, const schedule::Target& target) {
  StagePrograms chip;
  if (target.partitions_itself) {
    for (const Graph& graph : pipeline.programs()) chip.outputs.push_back(place_globally(graph, plan, chip.inputs));
    return chip;
  }
  pipeline.stage("03-partition", ops::Form::built, [&](std::vector<Graph>& programs) {
    for (Graph& graph : programs) {
      partition::Partitioned result =
          partition::partition(graph, plan.parallel.mesh, chip.inputs, partition_options(plan));
      chip.inputs.insert(result.inputs.begin(), result.inputs.end());
      chip.outputs.push_back(std::move(result.outputs));
      graph = std::move(result.graph);
    }
  });
  return chip;
}

// ---- Without a pipeline: every chip runs the whole model ----

void compile_whole(Compiled& compiled, Pipeline& pipeline, model::ForwardModel& forward, const recipe::Recipe& recipe,
                   const plan::Plan& plan, const schedule::Target& target) {
  pipeline.stage("02-autodiff", ops::Form::built, [&](std::vector<Graph>& programs) {
    Graph& graph = programs[kMicroStep];
    ops::Builder builder(graph);
    builder.set_scope("loss");
    const ValueId seed = builder.constant(1.0 / static_cast<double>(recipe.train.micro_steps));
    append_backward(graph, {.seeds = {{forward.loss, seed}}, .targets = {}}, forward.parameters,
                    autodiff_options(recipe.train), plan);
    append_expert_counts(graph, forward.expert_loads, plan);
    graph = schedule::narrow_gathers(graph).graph;
    programs.push_back(build_update(forward.parameters, forward.expert_loads, recipe, plan));
  });
  StagePrograms chip = partition_programs(pipeline, plan, target);
  lower(compiled, pipeline, target, plan, 1);
  for (int64_t micro = 0; micro < recipe.train.micro_steps; ++micro)
    chip.step.push_back({.program = kMicroStep, .micro = micro, .reads_batch = true, .reports = true});
  chip.step.push_back({.program = kUpdate, .micro = recipe.train.micro_steps - 1, .updates = true});
  chip.programs = std::move(pipeline.programs());
  compiled.stages.push_back(std::move(chip));
}

// ---- With a pipeline: every stage runs its parts of the model along the schedule ----

optim::StageLinks links_of(const CutModel& model, const plan::Plan& plan, int64_t stage) {
  optim::StageLinks links{.stages = plan.stages};
  for (const partition::SharedWeight& shared : model.shared) {
    std::vector<int64_t> holders;
    for (const size_t part : shared.stages) holders.push_back(static_cast<int64_t>(part) % plan.stages);
    MEGACPP_CHECK(holders.size() == 2 && holders[0] != holders[1]) << shared.name << " is not held by two stages";
    for (size_t i = 0; i < 2; ++i)
      if (holders[i] == stage) links.shared.push_back({shared.name, holders[1 - i] - holders[i], i == 0});
  }
  return links;
}

// All updates come after all parts of the model: entry plan.stages from the end is stage 0's.
void append_updates(std::vector<Graph>& programs, const CutModel& model, const recipe::Recipe& recipe,
                    const plan::Plan& plan) {
  for (int64_t stage = 0; stage < plan.stages; ++stage) {
    std::vector<blocks::Parameter> parameters;
    std::vector<model::ExpertLoad> loads;
    for (size_t part = static_cast<size_t>(stage); part < model.stages.size();
         part += static_cast<size_t>(plan.stages)) {
      const ModelStage& own = model.stages[part];
      parameters.insert(parameters.end(), own.parameters.begin(), own.parameters.end());
      loads.insert(loads.end(), own.expert_loads.begin(), own.expert_loads.end());
    }
    programs.push_back(build_update(parameters, loads, recipe, plan, links_of(model, plan, stage)));
  }
}

struct PartitionedModel {
  std::vector<LoweredStage> stages;           // passes are put in once they are lowered
  std::vector<partition::Placements> inputs;  // by pipeline stage
};

// Each part of the model is partitioned with its backward pass and then split into passes, so that what one pass keeps
// for another lies as both want it.
PartitionedModel partition_stages(std::vector<Graph>& programs, const CutModel& model, const plan::Plan& plan) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const auto backward =
      plan.layout.schedule == "zero_bubble" ? partition::Backward::in_two_parts : partition::Backward::whole;
  PartitionedModel result{{}, std::vector<partition::Placements>(static_cast<size_t>(plan.stages))};
  std::vector<Graph> passes;
  for (size_t i = 0; i < model.stages.size(); ++i) {
    partition::Options options = partition_options(plan);
    options.forward_nodes = model.stages[i].forward_nodes;
    partition::Partitioned parts = partition::partition(programs[i], mesh, {}, options);
    result.inputs[i % result.inputs.size()].insert(parts.inputs.begin(), parts.inputs.end());
    std::vector<partition::Part> split = partition::split_passes(parts.graph, parts.forward_nodes, backward).parts;
    result.stages.push_back({std::vector<Graph>(split.size()), std::move(parts.inputs), std::move(parts.outputs),
                             model.stages[i].carried_in, model.stages[i].carried_out});
    for (partition::Part& part : split) passes.push_back(std::move(part.graph));
  }
  for (size_t next = model.stages.size(); next < programs.size(); ++next) {
    partition::Placements& known = result.inputs[next - model.stages.size()];
    partition::Partitioned update = partition::partition(programs[next], mesh, known, partition_options(plan));
    known.insert(update.inputs.begin(), update.inputs.end());
    passes.push_back(std::move(update.graph));
  }
  programs = std::move(passes);
  return result;
}

// The programs of a cut model, weights narrowed before they are gathered.
std::vector<Graph> take_programs(CutModel& model) {
  std::vector<Graph> programs;
  for (ModelStage& stage : model.stages) {
    schedule::NarrowGathers narrowed = schedule::narrow_gathers(stage.graph, stage.forward_nodes);
    programs.push_back(std::move(narrowed.graph));
    stage.forward_nodes = narrowed.forward_nodes;
  }
  return programs;
}

// Lowers a cut model and lays its programs out along the schedule. `updates` says whether each stage's last program is
// its update.
void compile_stages(Compiled& compiled, Pipeline& pipeline, const CutModel& model, const plan::Plan& plan,
                    int64_t micro_steps, bool updates, const schedule::Target& target) {
  PartitionedModel parts;
  pipeline.stage("03-partition", ops::Form::built,
                 [&](std::vector<Graph>& programs) { parts = partition_stages(programs, model, plan); });
  lower(compiled, pipeline, target, plan, updates ? static_cast<size_t>(plan.stages) : 0);
  size_t next = 0;
  for (LoweredStage& stage : parts.stages)
    for (Graph& pass : stage.passes) pass = std::move(pipeline.programs()[next++]);
  const plan::PipelineSchedule schedule = plan::build_schedule(
      plan.layout.schedule, {.stages = plan.stages, .micros = micro_steps, .chunks = plan.layout.virtual_stages});
  const plan::Simulation simulation = plan::simulate(schedule);
  MEGACPP_CHECK(simulation.legal) << schedule.name << ": " << simulation.legal.reason();
  for (int64_t stage = 0; stage < plan.stages; ++stage) {
    std::optional<Graph> update;
    if (updates) update = std::move(pipeline.programs()[next++]);
    compiled.stages.push_back(assemble_stage(parts.stages, std::move(update), schedule, simulation, stage));
    const partition::Placements& known = parts.inputs[static_cast<size_t>(stage)];
    compiled.stages.back().inputs.insert(known.begin(), known.end());
  }
}

void compile_pipeline(Compiled& compiled, Pipeline& pipeline, model::ForwardModel& forward,
                      const recipe::Recipe& recipe, const plan::Plan& plan, const schedule::Target& target) {
  CutModel model;
  pipeline.stage("02-autodiff", ops::Form::built, [&](std::vector<Graph>& programs) {
    forward.graph = std::move(programs[0]);
    model =
        cut_model(forward, 1.0 / static_cast<double>(recipe.train.micro_steps), autodiff_options(recipe.train), plan);
    programs = take_programs(model);
    append_updates(programs, model, recipe, plan);
  });
  compile_stages(compiled, pipeline, model, plan, recipe.train.micro_steps, true, target);
}

// ---- Gradients alone, for comparing with a reference ----

void differentiate_all_inputs(Graph& graph, ValueId loss, const std::string& cotangent) {
  ops::Builder builder(graph);
  ValueId seed;
  if (cotangent.empty()) {
    seed = builder.constant(1.0);
  } else {
    // A lone block's cotangent lies as its input does, which stands first.
    const std::string sharding = graph.node(graph.inputs()[0]).attrs.text("sharding", "");
    seed = builder.input(cotangent, graph.type(loss), ir::Role::batch, sharding);
  }
  std::vector<ValueId> targets;
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = node.attrs.text("name");
    if (name == cotangent || !ir::is_float(graph.type(node.results[0]).dtype)) continue;
    targets.push_back(node.results[0]);
    names.push_back(name);
  }
  const std::vector<ValueId> gradients = autodiff::differentiate(graph, {{loss, seed}}, targets, {});
  for (size_t i = 0; i < names.size(); ++i)
    graph.add_output({.name = optim::gradient_name(names[i]), .value = gradients[i]});
}

void gradients_of_whole(Compiled& compiled, Pipeline& pipeline, const model::ForwardModel& forward,
                        const std::string& cotangent, const plan::Plan& plan, const schedule::Target& target) {
  pipeline.stage("02-autodiff", ops::Form::built, [&](std::vector<Graph>& programs) {
    differentiate_all_inputs(programs[0], forward.loss, cotangent);
    programs[0] = schedule::narrow_gathers(programs[0]).graph;
  });
  StagePrograms chip = partition_programs(pipeline, plan, target);
  lower(compiled, pipeline, target, plan, 0);
  chip.step = {{.program = 0, .reads_batch = true, .reports = true}};
  chip.programs = std::move(pipeline.programs());
  compiled.stages.push_back(std::move(chip));
}

void gradients_of_pipeline(Compiled& compiled, Pipeline& pipeline, model::ForwardModel& forward, const plan::Plan& plan,
                           const schedule::Target& target) {
  CutModel model;
  pipeline.stage("02-autodiff", ops::Form::built, [&](std::vector<Graph>& programs) {
    forward.graph = std::move(programs[0]);
    model = cut_model(forward, 1.0, {}, plan);
    programs = take_programs(model);
  });
  compile_stages(compiled, pipeline, model, plan, 1, false, target);
}

}  // namespace

size_t Compiled::stage_of(int64_t chip) const {
  return stages.size() == 1 ? 0 : static_cast<size_t>(mesh.coordinate(chip, mesh.axis("stage")));
}

std::vector<blocks::Parameter> Compiled::parameters_of(size_t stage) const {
  std::vector<blocks::Parameter> own;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(own),
               [&](const blocks::Parameter& parameter) { return stages[stage].inputs.contains(parameter.name); });
  return own;
}

int64_t Compiled::reporting_chip() const {
  int64_t chip = 0;
  while (stage_of(chip) + 1 < stages.size()) ++chip;
  return chip;
}

const StagePrograms& Compiled::largest() const {
  return *std::max_element(stages.begin(), stages.end(), [](const StagePrograms& a, const StagePrograms& b) {
    return a.memory.total_bytes < b.memory.total_bytes;
  });
}

double Compiled::flops_per_step() const {
  double flops = 0;
  for (const StagePrograms& chip : stages) flops += chip.flops;
  return flops * static_cast<double>(mesh.chips()) / static_cast<double>(stages.size());
}

Compiled compile_training(const recipe::Recipe& recipe, const schedule::Target& target,
                          const std::optional<Dump>& dump) {
  return compile_training(recipe, plan::make_plan(recipe), target, dump);
}

Compiled compile_training(const recipe::Recipe& recipe, const plan::Plan& plan, const schedule::Target& target,
                          const std::optional<Dump>& dump) {
  Compiled compiled;
  place_on(compiled, plan);
  Pipeline pipeline(compiled, dump);
  model::ForwardModel forward;
  pipeline.stage("01-model", ops::Form::built, [&](std::vector<Graph>& programs) {
    const ir::DType compute = recipe.train.precision == "bf16" ? ir::DType::bf16 : ir::DType::f32;
    forward = model::build_forward(recipe.model, {recipe.train.batch, recipe.train.sequence, compute}, plan);
    compiled.model_flops = 3 * flops_of(forward.graph) * static_cast<double>(recipe.train.micro_steps);
    programs.push_back(std::move(forward.graph));
  });
  const auto compile_model = plan.stages == 1 ? compile_whole : compile_pipeline;
  compile_model(compiled, pipeline, forward, recipe, plan, target);
  finish(compiled, pipeline, target);
  compiled.parameters = std::move(forward.parameters);
  compiled.expert_loads = std::move(forward.expert_loads);
  return compiled;
}

Compiled compile_gradients(model::ForwardModel forward, const std::string& cotangent, const schedule::Target& target,
                           const plan::Plan& plan) {
  Compiled compiled;
  place_on(compiled, plan);
  Pipeline pipeline(compiled, std::nullopt);
  pipeline.stage("01-model", ops::Form::built,
                 [&](std::vector<Graph>& programs) { programs.push_back(std::move(forward.graph)); });
  if (plan.stages == 1) {
    gradients_of_whole(compiled, pipeline, forward, cotangent, plan, target);
  } else {
    MEGACPP_CHECK(cotangent.empty()) << "a lone block has no pipeline";
    gradients_of_pipeline(compiled, pipeline, forward, plan, target);
  }
  finish(compiled, pipeline, target);
  compiled.parameters = std::move(forward.parameters);
  return compiled;
}

}  // namespace megacpp::compile
