// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/pipeline.h"

#include <algorithm>
#include <map>

#include "megacpp/base/error.h"
#include "megacpp/compile/training_graph.h"
#include "megacpp/ops/builder.h"
#include "megacpp/partition/split_passes.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;
using partition::Carry;

constexpr std::string_view kLeaving = "leaving.";  // what waits to be fetched by a neighbour

std::string cotangent_name(const std::string& carry) { return std::string(partition::kCotangentPrefix) + carry; }

// ---- Cutting ----

class Cutter {
 public:
  Cutter(const model::ForwardModel& forward, double share, const autodiff::Options& options, const plan::Plan& plan)
      : forward_(forward), share_(share), options_(options), plan_(plan) {}

  CutModel run() {
    const int64_t parts = plan_.stages * plan_.layout.virtual_stages;
    const std::vector<int64_t> first_blocks = partition::balanced_cuts(forward_.graph, parts, plan_.cuts);
    partition::StageCut cut = partition::cut_stages(forward_.graph, forward_.loss, first_blocks);
    CutModel result{{}, std::move(cut.shared)};
    for (size_t i = 0; i < cut.stages.size(); ++i)
      result.stages.push_back(differentiate(std::move(cut.stages[i]), i + 1 == cut.stages.size()));
    return result;
  }

 private:
  ModelStage differentiate(partition::Stage stage, bool is_last) {
    ModelStage result{std::move(stage.graph), 0, std::move(stage.carried_in), std::move(stage.carried_out), {}, {}};
    Graph& graph = result.graph;
    place_carries(graph, result);
    result.forward_nodes = graph.nodes().size();
    const auto here = [&stage](ValueId value) { return stage.values[value.index]; };
    const std::map<std::string, ValueId> inputs = inputs_by_name(graph);
    for (const blocks::Parameter& parameter : forward_.parameters)
      if (inputs.contains(parameter.name)) result.parameters.push_back(parameter);
    for (model::ExpertLoad load : forward_.expert_loads) {
      load.counts = here(load.counts);
      const bool is_made_here = load.counts.index != UINT32_MAX && graph.producer(load.counts).op != ir::kInputOp;
      if (is_made_here) result.expert_loads.push_back(load);
    }
    BackwardEnds ends;
    ops::Builder builder(graph);
    builder.set_scope("loss");
    if (is_last) ends.seeds.emplace_back(here(forward_.loss), builder.constant(share_));
    for (const Carry& carry : result.carried_out)
      if (carry.has_gradient) ends.seeds.emplace_back(*graph.find_output(carry.name), arriving(builder, graph, carry));
    for (const Carry& carry : result.carried_in)
      if (carry.has_gradient) ends.targets.push_back(*graph.find_input(carry.name));
    const std::vector<ValueId> gradients = append_backward(graph, ends, forward_.parameters, options_, plan_);
    append_expert_counts(graph, result.expert_loads, plan_);
    add_cotangents(builder, graph, result, gradients);
    return result;
  }

  // How a carried value lies is decided by the stage that makes it; its cotangent comes back lying the same way.
  void place_carries(Graph& graph, const ModelStage& stage) {
    for (const Carry& carry : stage.carried_in)
      graph.node(graph.value(*graph.find_input(carry.name)).producer).attrs.set("sharding", lies_.at(carry.name));
    const partition::Partitioned alone = partition::partition(graph, plan_.parallel.mesh);
    for (const Carry& carry : stage.carried_out)
      lies_[carry.name] = ir::to_string(alone.outputs.at(carry.name).sharding, plan_.parallel.mesh);
  }

  ValueId arriving(ops::Builder& builder, Graph& graph, const Carry& carry) {
    const ir::TensorType type = graph.type(*graph.find_output(carry.name));
    return builder.input(cotangent_name(carry.name), type, ir::Role::activation, lies_.at(carry.name));
  }

  void add_cotangents(ops::Builder& builder, Graph& graph, const ModelStage& stage,
                      const std::vector<ValueId>& gradients) {
    size_t next = 0;
    for (const Carry& carry : stage.carried_in) {
      if (!carry.has_gradient) continue;
      const std::string& text = lies_.at(carry.name);
      builder.set_scope(graph.producer(gradients[next]).scope);
      const ValueId placed = builder.one("reshard", {gradients[next++]}, {{"from", text}, {"to", text}});
      graph.add_output({.name = cotangent_name(carry.name), .value = placed});
    }
  }

  const model::ForwardModel& forward_;
  double share_;
  const autodiff::Options& options_;
  const plan::Plan& plan_;
  std::map<std::string, std::string> lies_;  // sharding of each carried value
};

// ---- Assembling ----

// Names of state that belongs to one micro-batch in flight.
bool is_of_micro_batch(const ir::Node& input) {
  return input.role == ir::Role::activation || input.role == ir::Role::batch;
}

bool is_kept(std::string_view name) { return name.starts_with(partition::kKeptPrefix); }

// A weight as the forward pass gathered it: all micro-batches read the same.
bool is_kept_weight(std::string_view name) {
  return is_kept(name) && name.substr(partition::kKeptPrefix.size()).starts_with(partition::kOfWeights);
}

// "chunk0.slot2." as "chunk0.".
std::string chunk_of(const std::string& slot) { return slot.substr(0, slot.find('.') + 1); }

struct Transfer {
  std::string state;
  ir::TensorType type;
  int64_t peer;
  int64_t tag;
};

class Assembler {
 public:
  Assembler(const std::vector<LoweredStage>& model_stages, const plan::PipelineSchedule& schedule,
            const plan::Simulation& simulation, int64_t stage)
      : stages_(model_stages), schedule_(schedule), simulation_(simulation), stage_(stage) {
    for (const LoweredStage& part : stages_)
      most_carried_ = std::max(most_carried_, static_cast<int64_t>(part.carried_out.size()));
  }

  StagePrograms run(std::optional<Graph> update) {
    for (const plan::Step& step : schedule_.steps[static_cast<size_t>(stage_)]) add(step);
    if (!update) return std::move(result_);
    result_.programs.push_back(std::move(*update));
    result_.outputs.emplace_back();
    result_.step.push_back(
        {.program = result_.programs.size() - 1, .micro = schedule_.shape.micros - 1, .updates = true});
    return std::move(result_);
  }

 private:
  void add(const plan::Step& step) {
    const size_t index = static_cast<size_t>(step.chunk * schedule_.shape.stages + stage_);
    const LoweredStage& part = stages_[index];
    const bool is_first = index == 0, is_last = index + 1 == stages_.size();
    const std::string prefix = "chunk" + std::to_string(step.chunk) + ".slot" +
                               std::to_string(simulation_.slot_of(stage_, step.chunk, step.micro)) + ".";
    Action action{.micro = step.micro, .prefix = prefix};
    const int64_t boundary = static_cast<int64_t>(index);
    switch (step.action) {
      case plan::Action::forward:
        if (!is_first) receive(action, part, part.carried_in, "", boundary - 1, -1);
        action.reads_batch = true;
        action.reports = is_last;
        pass(action, part, 0);
        if (!is_last) send(action, part, part.carried_out, "", boundary, 1);
        return;
      case plan::Action::backward:
      case plan::Action::backward_input:
        if (!is_last) receive(action, part, part.carried_out, partition::kCotangentPrefix, boundary, 1);
        pass(action, part, 1);
        if (!is_first) send(action, part, part.carried_in, partition::kCotangentPrefix, boundary - 1, -1);
        return;
      case plan::Action::backward_weight:
        return pass(action, part, 2);
    }
  }

  // Every program stands once for each slot; later micro-batches in that slot run the same one.
  template <typename Build>
  void run_program(Action action, const std::string& key, const Build& build) {
    const auto [at, is_new] = known_.emplace(action.prefix + key, result_.programs.size());
    if (is_new) {
      result_.programs.push_back(build());
      result_.outputs.push_back(std::move(outputs_));
      outputs_.clear();
    }
    action.program = at->second;
    result_.step.push_back(std::move(action));
  }

  void pass(const Action& action, const LoweredStage& part, size_t which) {
    const Graph& graph = part.passes[which];
    if (graph.outputs().empty()) return;  // nothing is carried into the first stage, so nothing flows back from it
    run_program(action, "pass" + std::to_string(which), [&] { return in_slot(graph, part, action.prefix); });
  }

  // The program with its micro-batch's names, and what it hands over kept in state.
  Graph in_slot(const Graph& graph, const LoweredStage& part, const std::string& prefix) {
    Graph result(graph.name() + " " + prefix);
    std::vector<ValueId> mapped(graph.values().size());
    std::map<std::string, std::string> kept_as;  // output name -> state
    for (const ir::Output& output : graph.outputs()) {
      if (!output.donated.empty() || !is_handed_over(output.name)) continue;
      const std::string state = state_of(output.name, prefix);
      kept_as[output.name] = state;
      add_state(result, state, graph.type(output.value), part.outputs, output.name);
    }
    for (const ir::Node& node : graph.nodes()) copy_node(result, graph, node, part, prefix, mapped);
    for (const ir::Output& output : graph.outputs()) {
      const auto at = kept_as.find(output.name);
      const std::string& name = at == kept_as.end() ? output.name : at->second;
      result.add_output({.name = name,
                         .value = mapped[output.value.index],
                         .donated = at == kept_as.end() ? output.donated : at->second});
      const auto placed = part.outputs.find(output.name);
      if (placed != part.outputs.end()) outputs_[name] = placed->second;
    }
    return result;
  }

  static bool is_handed_over(std::string_view name) {
    return is_kept(name) || name.starts_with("carry.") || name.starts_with(partition::kCotangentPrefix);
  }

  // Where an output that is handed over lies.
  static std::string state_of(const std::string& output, const std::string& prefix) {
    if (is_kept_weight(output)) return chunk_of(prefix) + output;
    return prefix + (is_kept(output) ? "" : std::string(kLeaving)) + output;
  }

  // An input that nothing reads: the storage an output takes over.
  void add_state(Graph& graph, const std::string& state, const ir::TensorType& type,
                 const partition::Placements& placements, const std::string& name) {
    ops::Builder builder(graph);
    builder.input(state, type, is_kept_weight(name) ? ir::Role::weight : ir::Role::activation);
    const auto at = placements.find(name);
    if (at != placements.end()) result_.inputs[state] = at->second;
  }

  void copy_node(Graph& result, const Graph& graph, const ir::Node& node, const LoweredStage& part,
                 const std::string& prefix, std::vector<ValueId>& mapped) {
    ir::Node copy = node;
    for (ValueId& operand : copy.operands) operand = mapped[operand.index];
    if (node.op == ir::kInputOp) {
      const std::string& name = node.attrs.text("name");
      const std::string state = is_kept_weight(name)      ? state_of(name, prefix)
                                : is_of_micro_batch(node) ? prefix + name
                                                          : name;
      copy.attrs.set("name", state);
      const auto at = part.inputs.find(name);
      if (at != part.inputs.end()) result_.inputs[state] = at->second;
    }
    const ir::NodeId id = result.append(std::move(copy), graph.result_types(node));
    for (size_t r = 0; r < node.results.size(); ++r) mapped[node.results[r].index] = result.node(id).results[r];
  }

  // ---- What travels between stages ----

  // Both sides of a boundary count the values that cross it in the same order.
  int64_t tag(int64_t boundary, size_t value, std::string_view kind) const {
    return (boundary * most_carried_ + static_cast<int64_t>(value)) * 2 + (kind.empty() ? 0 : 1);
  }

  std::vector<Transfer> transfers(const LoweredStage& part, const std::vector<Carry>& carries, std::string_view kind,
                                  const std::string& prefix, int64_t boundary, int64_t peer) {
    std::vector<Transfer> list;
    for (size_t i = 0; i < carries.size(); ++i) {
      if (!kind.empty() && !carries[i].has_gradient) continue;
      const std::string name = std::string(kind) + carries[i].name;
      list.push_back({prefix + name, local_type(part, name), peer, tag(boundary, i, kind)});
    }
    return list;
  }

  // As some pass of this part reads or makes it.
  static ir::TensorType local_type(const LoweredStage& part, const std::string& name) {
    for (const Graph& graph : part.passes) {
      if (const auto input = graph.find_input(name)) return graph.type(*input);
      if (const auto output = graph.find_output(name)) return graph.type(*output);
    }
    MEGACPP_CHECK(false) << "no pass of the stage knows " << name;
    return {};
  }

  void receive(const Action& action, const LoweredStage& part, const std::vector<Carry>& carries, std::string_view kind,
               int64_t boundary, int64_t peer) {
    const std::vector<Transfer> list = transfers(part, carries, kind, action.prefix, boundary, peer);
    if (list.empty()) return;
    run_program(action, "receive" + std::string(kind), [&] {
      Graph graph("receive " + action.prefix + std::string(kind));
      ops::Builder builder(graph);
      for (const Transfer& one : list) {
        builder.input(one.state, one.type, ir::Role::activation);
        builder.set_role(ir::Role::collective);
        const ValueId arrived = builder.one("recv", {},
                                            {{"axes", std::string("stage")},
                                             {"peer", one.peer},
                                             {"tag", one.tag},
                                             {"dtype", std::string(ir::dtype_name(one.type.dtype))},
                                             {"shape", one.type.shape},
                                             {"cause", "stage cut: " + one.state}});
        graph.add_output({.name = one.state, .value = arrived, .donated = one.state});
      }
      return graph;
    });
  }

  void send(const Action& action, const LoweredStage& part, const std::vector<Carry>& carries, std::string_view kind,
            int64_t boundary, int64_t peer) {
    const std::string prefix = action.prefix + std::string(kLeaving);
    const std::vector<Transfer> list = transfers(part, carries, kind, prefix, boundary, peer);
    if (list.empty()) return;
    run_program(action, "send" + std::string(kind), [&] {
      Graph graph("send " + action.prefix + std::string(kind));
      ops::Builder builder(graph);
      for (const Transfer& one : list) {
        const ValueId value = builder.input(one.state, one.type, ir::Role::activation);
        builder.node("send", {value},
                     {{"axes", std::string("stage")},
                      {"peer", one.peer},
                      {"tag", one.tag},
                      {"cause", "stage cut: " + one.state}});
      }
      return graph;
    });
  }

  const std::vector<LoweredStage>& stages_;
  const plan::PipelineSchedule& schedule_;
  const plan::Simulation& simulation_;
  int64_t stage_;
  int64_t most_carried_ = 0;             // over any boundary
  std::map<std::string, size_t> known_;  // slot and program -> index
  partition::Placements outputs_;        // of the program being made
  StagePrograms result_;
};

}  // namespace

CutModel cut_model(const model::ForwardModel& forward, double share, const autodiff::Options& options,
                   const plan::Plan& plan) {
  return Cutter(forward, share, options, plan).run();
}

StagePrograms assemble_stage(const std::vector<LoweredStage>& model_stages, std::optional<Graph> update,
                             const plan::PipelineSchedule& schedule, const plan::Simulation& simulation,
                             int64_t stage) {
  return Assembler(model_stages, schedule, simulation, stage).run(std::move(update));
}

}  // namespace megacpp::compile
