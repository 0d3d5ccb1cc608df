// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/collective_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "megacpp/core/ir/fold_blocks.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/optim/update.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/schedule/bucket_collectives.h"
#include "megacpp/program/schedule/collective_traffic.h"

namespace megacpp::compile {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

/// "data.0+data.1+model" as "data", "model".
std::vector<std::string> layout_axes(const std::string& axes) {
  std::vector<std::string> names;
  for (size_t at = 0; at < axes.size();) {
    const size_t end = std::min(axes.find('+', at), axes.size());
    const std::string step = axes.substr(at, end - at);
    const std::string name = step.substr(0, step.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    at = end + 1;
  }
  return names;
}

/// By name of a gradient that several chips of `model` have parts of, because they share the weight: the chips that
/// have a weight each.
using SharedGradients = std::map<std::string, int64_t>;

SharedGradients shared_gradients(const plan::Plan& plan, const std::vector<blocks::Parameter>& parameters) {
  SharedGradients shared;
  for (const blocks::Parameter& parameter : parameters)
    for (const blocks::Dim dim : parameter.dims) {
      if (dim != blocks::Dim::kv_heads && dim != blocks::Dim::groups) continue;
      const int64_t parts = plan.parallel.mesh.size(plan.parallel.axes_of(dim, parameter.letter));
      if (parts < plan.layout->tensor_parallel) shared[optim::gradient_name(parameter.name)] = parts;
    }
  return shared;
}

// What is asked of one program about its collectives.
class ProgramReader {
 public:
  /// `phase` of the whole program; none: forward and backward stand in one.
  ProgramReader(const Graph& graph, std::optional<Phase> phase, const SharedGradients& shared)
      : graph_(graph),
        phase_(phase),
        shared_(shared),
        in_forward_(graph.nodes().size(), false),
        gradient_(schedule::becomes_gradient(graph)) {
    for (const ir::Output& output : graph.outputs())
      if (output.donated.empty()) mark_forward(output.value);
    for (size_t n = graph.nodes().size(); n-- > 0;)
      if (in_forward_[n])
        for (const ValueId operand : graph.nodes()[n].operands) mark_forward(operand);
  }

  CollectiveFacts facts(size_t index) const {
    const Node& node = graph_.nodes()[index];
    const std::string cause = node.attrs.text("cause", "");
    CollectiveFacts facts{.kind = ops::started_op(node),
                          .moves = ops::transfer_of(node)->kind,
                          .phase = phase_.value_or(in_forward_[index] ? Phase::forward : Phase::backward),
                          .axes = layout_axes(node.attrs.text("axes")),
                          .scope = node.scope,
                          .requested = schedule::first_cause(cause).starts_with("annotation")};
    facts.of_matrices = schedule::first_cause(cause).starts_with("annotation for ");
    facts.of_weight = moves_weight(node);
    if (facts.phase == Phase::backward) add_gradients(facts, node);
    if (facts.phase == Phase::update) add_sharing(facts, node);
    facts.is_scalar = !node.operands.empty() && graph_.type(node.operands[0]).elements() == 1;
    return facts;
  }

 private:
  void mark_forward(ValueId value) { in_forward_[graph_.value(value).producer.index] = true; }

  // Straight from state, or through nodes that only change its form.
  bool moves_weight(const Node& node) const {
    const Node* source = &node;
    while (source->operands.size() == 1 || (source == &node && !node.operands.empty())) {
      source = &graph_.producer(source->operands[0]);
      if (source->op == ir::kInputOp) return source->role == ir::Role::weight;
    }
    return false;
  }

  void add_gradients(CollectiveFacts& facts, const Node& node) const {
    for (const ValueId result : node.results) {
      const std::string& gradient = gradient_[result.index];
      if (gradient.empty()) continue;
      facts.of_gradient = true;
      const auto shared = shared_.find(gradient);
      if (shared != shared_.end()) facts.sharing_parts = shared->second;
    }
  }

  void add_sharing(CollectiveFacts& facts, const Node& node) const {
    for (const ValueId operand : node.operands) {
      const auto shared = shared_.find(gradient_before(operand));
      if (shared != shared_.end()) facts.sharing_parts = shared->second;
    }
  }

  // The gradient that it was before it was moved; empty: it is none.
  std::string gradient_before(ValueId value) const {
    const Node& source = graph_.producer(value);
    if (source.op == ir::kInputOp) return source.role == ir::Role::gradient ? source.attrs.text("name") : "";
    if (!schedule::only_moves(source) || source.operands.size() != source.results.size()) return "";
    const auto at = std::find(source.results.begin(), source.results.end(), value);
    return gradient_before(source.operands[static_cast<size_t>(at - source.results.begin())]);
  }

  const Graph& graph_;
  std::optional<Phase> phase_;
  const SharedGradients& shared_;
  std::vector<bool> in_forward_;       // by node: an output that is no state depends on it
  std::vector<std::string> gradient_;  // by value: the gradient it becomes
};

// What the state of a stage's chip grows by under a change of the layout. Asked once per change: planning takes time.
class Costs {
 public:
  Costs(const Compiled& compiled, size_t stage, const plan::Plan& plan, const plan::ChangedPlan& changed_plan)
      : changed_plan_(changed_plan), all_(compiled.parameters), own_(compiled.parameters_of(stage)) {
    now_ = plan::state_bytes(plan, own_).total();
  }

  std::optional<int64_t> of(const std::vector<std::string>& changes) {
    if (changes.empty()) return std::nullopt;
    const auto [at, is_new] = known_.try_emplace(changes);
    if (is_new) {
      const std::optional<int64_t> then = state_after(changes);
      if (then) at->second = *then - now_;
    }
    return at->second;
  }

 private:
  // None for a layout that the gates refuse, say because another key demands what was changed.
  std::optional<int64_t> state_after(std::vector<std::string> changes) const {
    changes.emplace_back("layout.chips=0");  // a degree less is fewer chips
    const std::optional<plan::Plan> plan = changed_plan_(changes);
    if (!plan) return std::nullopt;
    return plan::state_bytes(*plan, plan->stages == 1 ? all_ : own_).total();
  }

  const plan::ChangedPlan& changed_plan_;
  const std::vector<blocks::Parameter>& all_;
  std::vector<blocks::Parameter> own_;  // of the stage
  int64_t now_ = 0;
  std::map<std::vector<std::string>, std::optional<int64_t>> known_;
};

/// Of all nodes of a program; none: forward and backward are one.
std::optional<Phase> phase_of(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::micro_step:
    case ProgramKind::gradients:
      return std::nullopt;
    case ProgramKind::convert_weights:
    case ProgramKind::inference:
    case ProgramKind::forward:
    case ProgramKind::receive_activations:
    case ProgramKind::send_activations:
      return Phase::forward;
    case ProgramKind::backward:
    case ProgramKind::backward_input:
    case ProgramKind::backward_weight:
    case ProgramKind::receive_cotangents:
    case ProgramKind::send_cotangents:
      return Phase::backward;
    case ProgramKind::update:
      return Phase::update;
  }
  return std::nullopt;
}

// How a program takes part in a step.
struct Part {
  std::optional<Phase> phase = {};  // none: a whole micro-step
  std::string slot = {};            // prefix of the names of its micro-batch
  int64_t runs = 0;                 // per step
};

Part part_of(const StagePrograms& chip, size_t program) {
  Part part{.phase = phase_of(chip.programs[program].kind)};
  for (const Action& action : chip.step) {
    if (action.program != program) continue;
    part.slot = action.prefix;
    ++part.runs;
  }
  return part;
}

// Programs of all slots of a micro-batch read alike.
std::string without(std::string text, const std::string& slot) {
  for (size_t at = slot.empty() ? std::string::npos : text.find(slot); at != std::string::npos;
       at = text.find(slot, at))
    text.erase(at, slot.size());
  return text;
}

using Key = std::tuple<int64_t, Phase, std::string, std::string, std::string, std::string, int64_t, std::string>;

Key key_of(const CollectiveRow& row) {
  return {row.stage, row.phase, row.kind, row.axes, row.where, row.cause, row.bytes, row.removal.purpose};
}

// Rows of one pipeline stage, calls counted over a whole step.
class StageReport {
 public:
  StageReport(const Compiled& compiled, size_t stage, const plan::Plan& plan, const plan::ChangedPlan& changed_plan)
      : chip_(compiled.stages[stage]),
        stage_(static_cast<int64_t>(stage)),
        plan_(plan),
        shared_(shared_gradients(plan, compiled.parameters)),
        costs_(compiled, stage, plan, changed_plan) {}

  std::vector<CollectiveRow> run() {
    for (size_t p = 0; p < chip_.programs.size(); ++p) add(chip_.programs[p].graph, part_of(chip_, p));
    return std::move(rows_);
  }

 private:
  void add(const Graph& graph, const Part& part) {
    const ProgramReader reader(graph, part.phase, shared_);
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.nodes()[n];
      const std::optional<int64_t> bytes = sent_bytes(graph, node);
      if (!bytes) continue;
      CollectiveFacts facts = reader.facts(n);
      facts.is_once = facts.phase == Phase::update || plan_.training.micro_steps == 1;
      if (const std::string_view letter = ir::scope_letter(node.scope); !letter.empty())
        facts.family = &recipe::family_of(plan_.model, letter[0]);
      CollectiveRow row{.stage = stage_,
                        .phase = facts.phase,
                        .kind = std::string(facts.kind),
                        .axes = node.attrs.text("axes"),
                        .where = ir::fold_blocks(node.scope),
                        .cause = ir::fold_blocks(without(node.attrs.text("cause", ""), part.slot)),
                        .calls = 0,
                        .bytes = *bytes,
                        .removal = removal_of(facts, plan_.layout),
                        .cost_bytes = {}};
      const auto [at, is_new] = known_.try_emplace(key_of(row), rows_.size());
      if (is_new) {
        row.cost_bytes = costs_.of(row.removal.changes);
        rows_.push_back(std::move(row));
      }
      rows_[at->second].calls += part.runs;
    }
  }

  const StagePrograms& chip_;
  int64_t stage_;
  const plan::Plan& plan_;
  SharedGradients shared_;
  Costs costs_;
  std::vector<CollectiveRow> rows_;
  std::map<Key, size_t> known_;
};

}  // namespace

std::optional<int64_t> sent_bytes(const Graph& graph, const Node& node) {
  int64_t own = 0;
  for (const ValueId operand : node.operands) own += graph.type(operand).bytes();
  const ops::Transfer* const transfer = ops::transfer_of(node);
  if (transfer == nullptr) return std::nullopt;
  return transfer->sent_bytes(own, node.attrs.integer("parts", 1));
}

std::vector<CollectiveRow> collective_report(const Compiled& compiled, const plan::Plan& plan,
                                             const plan::ChangedPlan& changed_plan) {
  std::vector<CollectiveRow> rows;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (CollectiveRow& row : StageReport(compiled, stage, plan, changed_plan).run()) {
      if (row.phase != Phase::update) row.calls /= plan.training.micro_steps;
      rows.push_back(std::move(row));
    }
  return rows;
}

std::vector<CollectiveTotal> collective_totals(const Compiled& compiled) {
  std::map<std::tuple<int64_t, std::string, std::string>, CollectiveTotal> totals;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) {
    const StagePrograms& chip = compiled.stages[stage];
    for (size_t p = 0; p < chip.programs.size(); ++p) {
      const Graph& graph = chip.programs[p].graph;
      const int64_t runs = part_of(chip, p).runs;
      for (const Node& node : graph.nodes()) {
        const std::optional<int64_t> bytes = sent_bytes(graph, node);
        if (!bytes) continue;
        CollectiveTotal total{.stage = static_cast<int64_t>(stage),
                              .axes = node.attrs.text("axes"),
                              .kind = std::string(ops::started_op(node))};
        CollectiveTotal& known = totals.try_emplace({total.stage, total.axes, total.kind}, total).first->second;
        known.calls += runs;
        known.bytes += runs * *bytes;
      }
    }
  }
  std::vector<CollectiveTotal> rows;
  for (auto& [key, total] : totals) rows.push_back(std::move(total));
  return rows;
}

int64_t step_bytes(const std::vector<CollectiveRow>& rows, int64_t micro_steps) {
  std::map<int64_t, int64_t> by_stage;
  for (const CollectiveRow& row : rows)
    by_stage[row.stage] += row.total_bytes() * (row.phase == Phase::update ? 1 : micro_steps);
  int64_t most = 0;
  for (const auto& [stage, bytes] : by_stage) most = std::max(most, bytes);
  return most;
}

}  // namespace megacpp::compile
