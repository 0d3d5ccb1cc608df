// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/stage_programs.h"

#include <algorithm>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/partition/divide_graph.h"
#include "megacpp/program/partition/split_passes.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::ValueId;
using partition::Carry;

constexpr std::string_view kLeaving = "leaving.";  // what waits to be fetched by a neighbour

// Names of state that belongs to one micro-batch in flight.
bool is_of_micro_batch(const ir::Node& input) {
  return input.role == ir::Role::activation || input.role == ir::Role::batch;
}

bool is_kept(std::string_view name) { return name.starts_with(partition::kKeptPrefix); }

// A weight as the forward pass gathered it: all micro-batches read the same.
bool is_kept_weight(std::string_view name) {
  return is_kept(name) && name.substr(partition::kKeptPrefix.size()).starts_with(partition::kOfWeights);
}

bool is_handed_over(std::string_view name) {
  return is_kept(name) || name.starts_with("carry.") || name.starts_with(partition::kCotangentPrefix);
}

// "chunk0.slot2." as "chunk0.".
std::string chunk_of(const std::string& slot) { return slot.substr(0, slot.find('.') + 1); }

// The state that holds an output which is handed over.
std::string state_of(const std::string& output, const std::string& slot) {
  if (is_kept_weight(output)) return chunk_of(slot) + output;
  return slot + (is_kept(output) ? "" : std::string(kLeaving)) + output;
}

// A program with its micro-batch's names, and what it hands over kept in state.
class SlotProgram {
 public:
  /// Notes in `placements` how the state it names is sharded.
  SlotProgram(const Program& source, const std::string& slot, partition::Placements& placements)
      : source_(source),
        slot_(slot),
        placements_(placements),
        result_{.kind = source.kind,
                .stage = source.stage,
                .chunk = source.chunk,
                .graph = Graph(source.graph.name() + " " + slot),
                .outputs = {}},
        mapped_(source.graph.values().size()) {}

  /// `inputs`: of the stage, by the names they have in the source.
  Program build(const partition::Placements& inputs) {
    for (const ir::Output& output : source_.graph.outputs())
      if (output.donated.empty() && is_handed_over(output.name)) add_state(output);
    for (const ir::Node& node : source_.graph.nodes()) copy(node, inputs);
    for (const ir::Output& output : source_.graph.outputs()) add_output(output);
    return std::move(result_);
  }

 private:
  // An input that nothing reads: the storage an output takes over.
  void add_state(const ir::Output& output) {
    const std::string state = state_of(output.name, slot_);
    kept_as_[output.name] = state;
    ops::Builder builder(result_.graph);
    const ValueId storage = builder.input(state, source_.graph.type(output.value),
                                          is_kept_weight(output.name) ? ir::Role::weight : ir::Role::activation);
    if (const ir::Tier tier = ops::tier_of(source_.graph, output.value); tier != ir::Tier::device)
      ops::place_input(result_.graph.node(result_.graph.value(storage).producer), tier);
    const auto at = source_.outputs.find(output.name);
    if (at != source_.outputs.end()) placements_[state] = at->second;
  }

  void copy(const ir::Node& node, const partition::Placements& inputs) {
    ir::Node copy = node;
    for (ValueId& operand : copy.operands) operand = mapped_[operand.index];
    if (node.op == ir::kInputOp) {
      const std::string& name = node.attrs.text("name");
      const std::string state = is_kept_weight(name)      ? state_of(name, slot_)
                                : is_of_micro_batch(node) ? slot_ + name
                                                          : name;
      copy.attrs.set("name", state);
      if (const auto at = inputs.find(name); at != inputs.end()) placements_[state] = at->second;
    }
    const ir::NodeId id = result_.graph.append(std::move(copy), source_.graph.result_types(node));
    const std::vector<ValueId>& results = result_.graph.node(id).results;
    for (size_t r = 0; r < results.size(); ++r) mapped_[node.results[r].index] = results[r];
  }

  void add_output(const ir::Output& output) {
    const auto kept = kept_as_.find(output.name);
    const std::string& name = kept == kept_as_.end() ? output.name : kept->second;
    result_.graph.add_output({.name = name,
                              .value = mapped_[output.value.index],
                              .donated = kept == kept_as_.end() ? output.donated : kept->second});
    const auto placed = source_.outputs.find(output.name);
    if (placed != source_.outputs.end()) result_.outputs[name] = placed->second;
  }

  const Program& source_;
  const std::string& slot_;
  partition::Placements& placements_;
  Program result_;
  std::vector<ValueId> mapped_;                 // by value of the source
  std::map<std::string, std::string> kept_as_;  // output name -> state
};

// What crosses the boundary to a neighbouring model stage.
struct Exchange {
  ProgramKind kind;
  const std::vector<Carry>& carries;
  int64_t boundary;  // 0: between the first two model stages
  int64_t peer;      // offset of the neighbour's stage

  bool is_cotangent() const { return kind == ProgramKind::receive_cotangents || kind == ProgramKind::send_cotangents; }
  bool is_send() const { return kind == ProgramKind::send_activations || kind == ProgramKind::send_cotangents; }
};

struct Transfer {
  std::string state;
  ir::TensorType type;
  int64_t tag;
};

void add_receive(Graph& graph, const Transfer& transfer, int64_t peer) {
  ops::Builder builder(graph);
  builder.input(transfer.state, transfer.type, ir::Role::activation);
  builder.set_role(ir::Role::collective);
  const ValueId arrived = builder.one("recv", {},
                                      {{"axes", std::string("stage")},
                                       {"peer", peer},
                                       {"tag", transfer.tag},
                                       {"dtype", std::string(ir::dtype_name(transfer.type.dtype))},
                                       {"shape", transfer.type.shape},
                                       {"cause", "stage cut: " + transfer.state}});
  graph.add_output({.name = transfer.state, .value = arrived, .donated = transfer.state});
}

void add_send(Graph& graph, const Transfer& transfer, int64_t peer) {
  ops::Builder builder(graph);
  const ValueId value = builder.input(transfer.state, transfer.type, ir::Role::activation);
  builder.node("send", {value},
               {{"axes", std::string("stage")},
                {"peer", peer},
                {"tag", transfer.tag},
                {"cause", "stage cut: " + transfer.state}});
}

class Assembler {
 public:
  Assembler(const Compilation& run, const plan::PipelineSchedule& schedule, const plan::Simulation& simulation,
            int64_t stage)
      : run_(run), schedule_(schedule), simulation_(simulation), stage_(stage) {
    for (const ModelStage& part : run.parts)
      most_carried_ = std::max(most_carried_, static_cast<int64_t>(part.carried_out.size()));
    for (const Program& program : run.programs)
      if (program.stage == stage) own_.push_back(&program);
  }

  StagePrograms assemble() {
    if (const Program* conversion = find(ProgramKind::convert_weights, 0)) {
      result_.programs.push_back(*conversion);
      result_.step.push_back({.program = 0});
    }
    for (const plan::Step& step : schedule_.steps[static_cast<size_t>(stage_)]) add(step);
    if (const Program* update = find(ProgramKind::update, 0)) {
      result_.programs.push_back(*update);
      result_.step.push_back({.program = result_.programs.size() - 1, .micro = schedule_.shape.micros - 1});
    }
    const partition::Placements& inputs = stage_inputs();
    placements_.insert(inputs.begin(), inputs.end());
    result_.state = state_table(result_, placements_, run_.forward.parameters);
    return std::move(result_);
  }

 private:
  const partition::Placements& stage_inputs() const { return run_.inputs[static_cast<size_t>(stage_)]; }

  const Program* find(ProgramKind kind, int64_t chunk) const {
    const auto at = std::ranges::find_if(
        own_, [&](const Program* program) { return program->kind == kind && program->chunk == chunk; });
    return at == own_.end() ? nullptr : *at;
  }

  void add(const plan::Step& step) {
    const int64_t index = step.chunk * schedule_.shape.stages + stage_;
    const ModelStage& part = run_.parts[static_cast<size_t>(index)];
    const bool is_first = index == 0, is_last = static_cast<size_t>(index) + 1 == run_.parts.size();
    const std::string slot = "chunk" + std::to_string(step.chunk) + ".slot" +
                             std::to_string(simulation_.slot_of(stage_, step.chunk, step.micro)) + ".";
    const Action action{.micro = step.micro, .prefix = slot};
    switch (step.kind) {
      case plan::StepKind::forward: {
        if (!is_first) exchange(action, step.chunk, {ProgramKind::receive_activations, part.carried_in, index - 1, -1});
        Action forward = action;
        forward.reads_batch = true;
        compute(forward, step.chunk, ProgramKind::forward);
        if (!is_last) exchange(action, step.chunk, {ProgramKind::send_activations, part.carried_out, index, 1});
        return;
      }
      case plan::StepKind::backward:
      case plan::StepKind::backward_input:
        if (!is_last) exchange(action, step.chunk, {ProgramKind::receive_cotangents, part.carried_out, index, 1});
        compute(action, step.chunk,
                step.kind == plan::StepKind::backward ? ProgramKind::backward : ProgramKind::backward_input);
        if (!is_first) exchange(action, step.chunk, {ProgramKind::send_cotangents, part.carried_in, index - 1, -1});
        return;
      case plan::StepKind::backward_weight:
        return compute(action, step.chunk, ProgramKind::backward_weight);
    }
  }

  // Every program stands once for each slot; later micro-batches in that slot run the same one.
  template <typename Build>
  void run_program(Action action, ProgramKind kind, const Build& build) {
    const auto [at, is_new] = known_.emplace(std::pair(action.prefix, kind), result_.programs.size());
    if (is_new) result_.programs.push_back(build());
    action.program = at->second;
    result_.step.push_back(std::move(action));
  }

  void compute(const Action& action, int64_t chunk, ProgramKind kind) {
    const Program* source = find(kind, chunk);
    MEGACPP_CHECK(source != nullptr) << "stage " << stage_ << " has no program of kind " << kind_name(kind);
    if (source->graph.outputs().empty()) return;  // nothing is carried into the first stage: nothing flows back
    run_program(action, kind, [&] { return SlotProgram(*source, action.prefix, placements_).build(stage_inputs()); });
  }

  // ---- What travels between stages ----

  void exchange(const Action& action, int64_t chunk, const Exchange& what) {
    const std::vector<Transfer> list = transfers(what, chunk, action.prefix);
    if (list.empty()) return;
    run_program(action, what.kind, [&] {
      const std::string name = std::string(what.is_send() ? "send " : "receive ") + action.prefix +
                               std::string(what.is_cotangent() ? partition::kCotangentPrefix : "");
      Program program{.kind = what.kind, .stage = stage_, .chunk = chunk, .graph = Graph(name), .outputs = {}};
      for (const Transfer& one : list) (what.is_send() ? add_send : add_receive)(program.graph, one, what.peer);
      return program;
    });
  }

  std::vector<Transfer> transfers(const Exchange& what, int64_t chunk, const std::string& slot) const {
    std::vector<Transfer> list;
    for (size_t i = 0; i < what.carries.size(); ++i) {
      const Carry& carry = what.carries[i];
      if (what.is_cotangent() && !carry.has_gradient) continue;
      const std::string name = (what.is_cotangent() ? std::string(partition::kCotangentPrefix) : "") + carry.name;
      const std::string state = slot + (what.is_send() ? std::string(kLeaving) : "") + name;
      // Both sides of a boundary count the values that cross it in the same order.
      const int64_t value = what.boundary * most_carried_ + static_cast<int64_t>(i);
      list.push_back({state, local_type(chunk, name), value * 2 + (what.is_cotangent() ? 1 : 0)});
    }
    return list;
  }

  // As some program of this part reads or makes it.
  ir::TensorType local_type(int64_t chunk, const std::string& name) const {
    for (const Program* program : own_) {
      if (program->chunk != chunk) continue;
      if (const auto input = program->graph.find_input(name)) return program->graph.type(*input);
      if (const auto output = program->graph.find_output(name)) return program->graph.type(*output);
    }
    MEGACPP_CHECK(false) << "no program of the stage knows " << name;
    return {};
  }

  const Compilation& run_;
  const plan::PipelineSchedule& schedule_;
  const plan::Simulation& simulation_;
  int64_t stage_;
  std::vector<const Program*> own_;                              // of the stage
  int64_t most_carried_ = 0;                                     // over any boundary
  std::map<std::pair<std::string, ProgramKind>, size_t> known_;  // slot and kind -> index
  partition::Placements placements_;                             // of the stage's state, under the names of slots too
  StagePrograms result_;
};

// Every chip runs the whole model.
StagePrograms assemble_whole(Compilation& run) {
  StagePrograms chip{.programs = std::move(run.programs)};
  const ProgramKind kind = run.trains ? ProgramKind::micro_step : run.alone;
  const size_t program = chip.index_of(kind);
  if (chip.has(ProgramKind::convert_weights))
    chip.step.push_back({.program = chip.index_of(ProgramKind::convert_weights)});
  for (int64_t micro = 0; micro < run.micro_steps(); ++micro)
    chip.step.push_back({.program = program, .micro = micro, .reads_batch = true});
  if (chip.has(ProgramKind::update))
    chip.step.push_back({.program = chip.index_of(ProgramKind::update), .micro = run.micro_steps() - 1});
  chip.state = state_table(chip, run.inputs[0], run.forward.parameters);
  for (const blocks::StatePort& port : run.forward.state)
    std::ranges::find(chip.state, port.name, &StateTensor::name)->kept = true;
  return chip;
}

std::vector<StagePrograms> assemble_pipeline(const Compilation& run) {
  const plan::PipelineSchedule schedule = plan::build_schedule(
      run.plan.layout->schedule,
      {.stages = run.plan.stages, .micros = run.micro_steps(), .chunks = run.plan.layout->virtual_stages});
  const plan::Simulation simulation = plan::simulate(schedule);
  MEGACPP_CHECK(simulation.legal) << base::text_of(schedule.kind) << ": " << simulation.legal.reason();
  std::vector<StagePrograms> stages;
  for (int64_t stage = 0; stage < run.plan.stages; ++stage)
    stages.push_back(assemble_stage(run, schedule, simulation, stage));
  return stages;
}

double step_flops(const StagePrograms& chip) {
  std::vector<double> flops(chip.programs.size());
  std::ranges::transform(chip.programs, flops.begin(), [](const Program& program) { return flops_of(program.graph); });
  double total = 0;
  for (const Action& action : chip.step)
    if (chip.kind_of(action) != ProgramKind::update) total += flops[action.program];
  return total;
}

}  // namespace

StagePrograms assemble_stage(const Compilation& run, const plan::PipelineSchedule& schedule,
                             const plan::Simulation& simulation, int64_t stage) {
  return Assembler(run, schedule, simulation, stage).assemble();
}

void assemble_steps(Compilation& run) {
  if (run.is_pipeline())
    run.compiled.stages = assemble_pipeline(run);
  else
    run.compiled.stages.push_back(assemble_whole(run));
  run.programs.clear();
  for (StagePrograms& chip : run.compiled.stages) chip.flops = step_flops(chip);
}

}  // namespace megacpp::compile
