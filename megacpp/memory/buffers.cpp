// SPDX-License-Identifier: Apache-2.0
#include "megacpp/memory/buffers.h"

#include <algorithm>
#include <map>
#include <optional>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/tile_program.h"

namespace megacpp::memory {
namespace {

using ir::NodeId;
using ir::ValueId;

class Assigner {
 public:
  Assigner(const ir::Graph& graph, const schedule::Target& target)
      : graph_(graph), target_(target), last_use_(graph.values().size(), 0) {
    result_.buffer_of.assign(graph.values().size(), -1);
    result_.workspace_of.assign(graph.nodes().size(), -1);
  }

  Buffers run() {
    find_last_uses();
    for (const ir::Output& output : graph_.outputs())
      if (!output.donated.empty()) donated_to_[output.value.index] = output.donated;
    for (const NodeId id : graph_.inputs()) place_state(id);
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n)
      if (graph_.nodes()[n].op != ir::kInputOp) place(n);
    for (const ir::Output& output : graph_.outputs()) {
      if (output.donated.empty() || buffer(output.value).state == output.donated) continue;
      result_.final_copies.push_back({output.value, output.donated});
      check_not_output(output.donated);
    }
    return std::move(result_);
  }

 private:
  Buffer& buffer(ValueId value) { return result_.buffers[static_cast<size_t>(result_.buffer_of[value.index])]; }

  // State is there before the first node, wherever its input stands in the order.
  void place_state(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const ValueId value = node.results[0];
    const std::string& name = node.attrs.text("name");
    inputs_[name] = value;
    result_.buffer_of[value.index] = static_cast<int>(result_.buffers.size());
    result_.buffers.push_back({.bytes = graph_.type(value).bytes(),
                               .first = 0,
                               .last = last_use_[value.index],
                               .role = node.role,
                               .scope = node.scope,
                               .what = node.op + " " + to_string(graph_.type(value)),
                               .state = name});
  }

  // The copy into this state runs after the last node, so no output may still stand for its old value.
  void check_not_output(const std::string& state) {
    for (const ir::Output& output : graph_.outputs())
      MEGACPP_CHECK(buffer(output.value).state != state)
          << "output '" << output.name << "' is the old value of '" << state << "', which another output replaces";
  }

  // Last reader of each value; outputs are read after the last node. Reshapes forward their readers to their operand.
  void find_last_uses() {
    const uint32_t end = static_cast<uint32_t>(graph_.nodes().size());
    for (uint32_t n = 0; n < end; ++n)
      for (const ValueId operand : graph_.nodes()[n].operands) last_use_[operand.index] = n;
    for (const ir::Output& output : graph_.outputs()) last_use_[output.value.index] = end;
    for (uint32_t n = end; n-- > 0;) {
      const ir::Node& node = graph_.nodes()[n];
      if (node.op != "reshape") continue;
      uint32_t& operand = last_use_[node.operands[0].index];
      operand = std::max(operand, last_use_[node.results[0].index]);
    }
  }

  void place(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    if (node.op == "reshape") {
      join(node.results[0], node.operands[0]);
      return;
    }
    for (size_t r = 0; r < node.results.size(); ++r) place_result(n, r);
    const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
    const int64_t workspace = target_.workspace_bytes(node.op, {operands, results, node.attrs});
    if (workspace > 0) {
      result_.workspace_of[n] = static_cast<int>(result_.buffers.size());
      result_.buffers.push_back({.bytes = workspace,
                                 .first = n,
                                 .last = n,
                                 .role = ir::Role::temporary,
                                 .scope = node.scope,
                                 .what = node.op + " workspace",
                                 .state = ""});
    }
  }

  void place_result(uint32_t n, size_t r) {
    const ir::Node& node = graph_.nodes()[n];
    const ValueId value = node.results[r];
    if (const auto operand = takes_over(n, r)) {
      join(value, *operand);
      return;
    }
    if (const auto state = finished_state(n, value)) {
      join(value, *state);
      return;
    }
    result_.buffer_of[value.index] = static_cast<int>(result_.buffers.size());
    result_.buffers.push_back({.bytes = graph_.type(value).bytes(),
                               .first = n,
                               .last = std::max(n, last_use_[value.index]),
                               .role = node.role,
                               .scope = node.scope,
                               .what = node.op + " " + to_string(graph_.type(value)),
                               .state = ""});
  }

  void join(ValueId value, ValueId into) {
    result_.buffer_of[value.index] = result_.buffer_of[into.index];
    Buffer& shared = buffer(value);
    shared.last = std::max(shared.last, last_use_[value.index]);
    if (shared.state.empty() && graph_.producer(value).role != ir::Role::temporary)
      shared.role = graph_.producer(value).role;
  }

  // The operand whose bytes result r may overwrite: read here for the last time and laid out element for element alike.
  std::optional<ValueId> takes_over(uint32_t n, size_t r) {
    const ir::Node& node = graph_.nodes()[n];
    std::optional<ValueId> best;
    for (const size_t i : aliasable_operands(node, r)) {
      const ValueId operand = node.operands[i];
      const Buffer& from = buffer(operand);
      const ir::TensorType &mine = graph_.type(node.results[r]), &theirs = graph_.type(operand);
      const bool same_layout =
          mine.elements() == theirs.elements() && mine.dtype == theirs.dtype && from.bytes == mine.bytes();
      if (!same_layout || from.last != n || is_shared(node, i) || !may_overwrite(from, node.results[r])) continue;
      best = operand;
      if (!from.state.empty()) break;  // replacing a state in place saves a copy: the best choice
    }
    return best;
  }

  // The state this result replaces, when its old value was read for the last time before node n: written in place then.
  std::optional<ValueId> finished_state(uint32_t n, ValueId value) {
    const auto donated = donated_to_.find(value.index);
    if (donated == donated_to_.end()) return std::nullopt;
    const auto input = inputs_.find(donated->second);
    MEGACPP_CHECK(input != inputs_.end()) << "no input is named '" << donated->second << "'";
    const Buffer& state = buffer(input->second);
    return state.last < n && state.bytes == graph_.type(value).bytes() ? std::optional(input->second) : std::nullopt;
  }

  // Whether operand i's bytes are read under another operand too, or were already taken over by an earlier result.
  bool is_shared(const ir::Node& node, size_t i) const {
    const int mine = result_.buffer_of[node.operands[i].index];
    for (size_t j = 0; j < node.operands.size(); ++j)
      if (j != i && result_.buffer_of[node.operands[j].index] == mine) return true;
    return std::any_of(node.results.begin(), node.results.end(),
                       [&](ValueId result) { return result_.buffer_of[result.index] == mine; });
  }

  // State may be overwritten only by the output that replaces it; and such an output goes nowhere else when it can.
  bool may_overwrite(const Buffer& from, ValueId result) const {
    const auto donated = donated_to_.find(result.index);
    if (!from.state.empty()) return donated != donated_to_.end() && donated->second == from.state;
    return donated == donated_to_.end();
  }

  std::vector<size_t> aliasable_operands(const ir::Node& node, size_t r) const {
    if (node.op == "fused") return same_element_operands(node, r);
    const int alias = ops::op_def(node.op).may_alias;
    if (r != 0 || alias < 0 || static_cast<size_t>(alias) >= node.operands.size()) return {};
    return {static_cast<size_t>(alias)};
  }

  // Operands a fused program reads at the very element it writes. Reductions write elsewhere: no operand then. An
  // operand that another output stores as it is must stay readable until all outputs are written.
  std::vector<size_t> same_element_operands(const ir::Node& node, size_t r) const {
    const ops::TileProgram program = ops::parse_tile_program(node.attrs.text("program"));
    if (program.outputs[r].kind != ops::TileOutput::Kind::store) return {};
    std::vector<bool> is_stored(program.instructions.size(), false);
    for (size_t o = 0; o < program.outputs.size(); ++o)
      if (o != r) is_stored[static_cast<size_t>(ops::looked_through_converts(program, program.outputs[o].reg))] = true;
    std::vector<size_t> operands;
    size_t index = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const ops::TileInstruction& instruction = program.instructions[i];
      if (instruction.kind != ops::TileInstruction::Kind::input) continue;
      if (instruction.dims.size() == node.attrs.list("shape").size() && !is_stored[i]) operands.push_back(index);
      ++index;
    }
    return operands;
  }

  const ir::Graph& graph_;
  const schedule::Target& target_;
  std::vector<uint32_t> last_use_;              // by value
  std::map<uint32_t, std::string> donated_to_;  // output value -> state it replaces
  std::map<std::string, ValueId> inputs_;       // state name -> its value
  Buffers result_;
};

}  // namespace

Buffers assign_buffers(const ir::Graph& graph, const schedule::Target& target) { return Assigner(graph, target).run(); }

}  // namespace megacpp::memory
