// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/buffers.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/ops/tile_program.h"

namespace megacpp::memory {
namespace {

using ir::NodeId;
using ir::ValueId;

// Whether results are operands under another name.
bool is_view(const ir::Node& node) { return ops::op_def(node.op).is_view; }

// Orders nodes by what a target is told of them: op, types, attributes. Equal ones need the same workspace.
class ByQuestion {
 public:
  explicit ByQuestion(const ir::Graph& graph) : graph_(&graph) {}

  bool operator()(uint32_t a, uint32_t b) const {
    const ir::Node &one = graph_->nodes()[a], &other = graph_->nodes()[b];
    if (one.op != other.op) return one.op < other.op;
    if (const auto by = compare(one.operands, other.operands); by != 0) return by < 0;
    if (const auto by = compare(one.results, other.results); by != 0) return by < 0;
    return one.attrs.entries() < other.attrs.entries();
  }

 private:
  std::strong_ordering compare(const std::vector<ValueId>& some, const std::vector<ValueId>& others) const {
    return std::lexicographical_compare_three_way(
        some.begin(), some.end(), others.begin(), others.end(), [this](ValueId a, ValueId b) {
          const ir::TensorType &one = graph_->type(a), &other = graph_->type(b);
          return one.dtype == other.dtype ? one.shape <=> other.shape : one.dtype <=> other.dtype;
        });
  }

  const ir::Graph* graph_;
};

class Assigner {
 public:
  Assigner(const ir::Graph& graph, const schedule::Target& target)
      : graph_(graph), target_(target), last_use_(graph.values().size(), 0), workspace_bytes_(ByQuestion(graph)) {
    result_.buffer_of.assign(graph.values().size(), -1);
    result_.place_in.assign(graph.values().size(), 0);
    row_of_.assign(graph.values().size(), -1);
    done_at_.assign(graph.nodes().size(), 0);
    result_.workspace_of.assign(graph.nodes().size(), -1);
  }

  Buffers run() {
    find_last_uses();
    for (const ir::Output& output : graph_.outputs())
      if (!output.donated.empty()) donated_to_[output.value.index] = output.donated;
    for (auto n = static_cast<uint32_t>(graph_.nodes().size()); n-- > 0;) {
      if (is_view(graph_.nodes()[n])) look_through(n);
      add_up_in_state(n);
    }
    for (const NodeId id : graph_.inputs()) place_state(id);
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) find_rows(n);
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n)
      if (graph_.nodes()[n].op != ir::kInputOp) place(n);
    for (const ir::Output& output : graph_.outputs()) {
      if (output.donated.empty() || buffer(output.value).state == output.donated) continue;
      MEGACPP_CHECK(buffer(inputs_.at(output.donated)).tier == ir::Tier::device &&
                    buffer(output.value).tier == ir::Tier::device)
          << output.donated << " is not in memory of the device and is not replaced in place";
      result_.final_copies.push_back({output.value, output.donated});
      check_not_output(output.donated);
    }
    if (target_.separate_bytes > 0) keep_small_in_runs();
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
    result_.buffers.push_back({.bytes = target_.bytes_of_state(graph_.type(value)),
                               .first = 0,
                               .last = last_use_[value.index],
                               .role = node.role,
                               .scope = node.scope,
                               .what = node.op + " " + to_string(graph_.type(value)),
                               .state = name,
                               .tier = ops::tier_of(node)});
  }

  // What is seen as the replacement of a state is written there: by a reshape, or when a collective or a copy is done.
  // What replaces one by itself goes there; of several that see it as a replacement the last in the program counts.
  void look_through(uint32_t n) {
    const ir::Node& view = graph_.nodes()[n];
    if (view.op == ops::kDoneOp || view.op == ops::kCopyDoneOp)
      done_at_[graph_.value(view.operands[0]).producer.index] = n;
    for (size_t r = 0; r < view.results.size(); ++r)
      if (const auto donated = donated_to_.find(view.results[r].index); donated != donated_to_.end())
        donated_to_.emplace(view.operands[r].index, std::string(donated->second));
  }

  // A sum that ops add to one after the other, the last of them replacing a state, is there from the first on.
  void add_up_in_state(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    const int addend = ops::op_def(node.op).addend;
    if (addend < 0 || node.operands.size() <= static_cast<size_t>(addend)) return;
    const auto donated = donated_to_.find(node.results[0].index);
    const ValueId sum = node.operands[static_cast<size_t>(addend)];
    const bool is_sum = graph_.value(sum).result == 0 && ops::op_def(graph_.producer(sum).op).addend >= 0;
    if (donated != donated_to_.end() && is_sum && last_use_[sum.index] == n)
      donated_to_.emplace(sum.index, std::string(donated->second));
  }

  // Tensors that are contiguous in one buffer.
  struct Row {
    uint32_t of;  // the collective
    std::string what;
    int64_t bytes = 0;
    uint32_t last = 0;  // use of any
    int buffer = -1;    // once a member is made
  };

  // Tensors of a collective that are to be contiguous: those whose place nothing else decides.
  void find_rows(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    if (!ops::op_def(node.op).is_collective || node.op == ops::kDoneOp) return;
    const std::string op(ops::started_op(node));
    add_row(node.operands, {.of = n, .what = "operands of " + op});
    add_row(node.results, {.of = n, .what = "results of " + op});
  }

  void add_row(const std::vector<ValueId>& values, Row row) {
    std::vector<ValueId> members;
    for (const ValueId value : values) {
      const ir::Node& maker = graph_.producer(value);
      const bool is_free = maker.op != ir::kInputOp && !is_view(maker) && !donated_to_.contains(value.index);
      if (is_free && row_of_[value.index] < 0 && std::find(members.begin(), members.end(), value) == members.end())
        members.push_back(value);
    }
    if (members.size() < 2) return;
    row.what = std::to_string(members.size()) + " " + row.what;
    for (const ValueId member : members) {
      row_of_[member.index] = static_cast<int>(rows_.size());
      row.bytes = (row.bytes + target_.alignment - 1) / target_.alignment * target_.alignment;
      result_.place_in[member.index] = row.bytes;
      row.bytes += target_.bytes_of_value(graph_.type(member));
      row.last = std::max(row.last, last_use_[member.index]);
    }
    rows_.push_back(std::move(row));
  }

  // The copy into this state runs after the last node, so no output may still stand for its old value.
  void check_not_output(const std::string& state) {
    for (const ir::Output& output : graph_.outputs())
      MEGACPP_CHECK(buffer(output.value).state != state)
          << "output '" << output.name << "' is the old value of '" << state << "', which another output replaces";
  }

  // Small buffers that the nodes of a run of clusters write: none has the bytes of another, which would order their
  // nodes.
  void keep_small_in_runs() {
    const std::vector<ir::Node>& nodes = graph_.nodes();
    std::vector<uint32_t> run_end(nodes.size(), 0);  // of each cluster: the last one of its run
    uint32_t end = 0;
    bool is_in_run = false;
    for (auto n = static_cast<uint32_t>(nodes.size()); n-- > 0;) {
      if (!ops::op_def(nodes[n].op).is_work()) continue;
      const bool is_cluster = nodes[n].op == "fused";
      if (is_cluster && !is_in_run) end = n;
      if (is_cluster) run_end[n] = end;
      is_in_run = is_cluster;
    }
    for (Buffer& each : result_.buffers)
      if (each.state.empty() && each.bytes <= target_.separate_bytes)
        each.last = std::max(each.last, run_end[each.first]);
  }

  // Last reader of each value; outputs are read after the last node. Views forward their readers to their operands.
  void find_last_uses() {
    const uint32_t end = static_cast<uint32_t>(graph_.nodes().size());
    for (uint32_t n = 0; n < end; ++n)
      for (const ValueId operand : graph_.nodes()[n].operands) last_use_[operand.index] = n;
    for (const ir::Output& output : graph_.outputs()) last_use_[output.value.index] = end;
    for (uint32_t n = end; n-- > 0;) {
      const ir::Node& node = graph_.nodes()[n];
      if (!is_view(node)) continue;
      for (size_t r = 0; r < node.results.size(); ++r) {
        uint32_t& operand = last_use_[node.operands[r].index];
        operand = std::max(operand, last_use_[node.results[r].index]);
      }
    }
  }

  void place(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    if (is_view(node)) {
      for (size_t r = 0; r < node.results.size(); ++r) join(node.results[r], node.operands[r]);
      return;
    }
    if (ops::op_def(node.op).is_collective) {
      place_collective(n);
    } else if (node.op == ops::kCopyStartOp) {
      place_copy(n);
      return;
    } else {
      for (size_t r = 0; r < node.results.size(); ++r) place_result(n, r, takes_over(n, r));
    }
    if (const int64_t workspace = workspace_bytes(n); workspace > 0) {
      result_.workspace_of[n] = static_cast<int>(result_.buffers.size());
      result_.buffers.push_back({.bytes = workspace,
                                 .first = n,
                                 .last = std::max(n, done_at_[n]),  // of a collective that goes on after its start
                                 .role = ir::Role::temporary,
                                 .scope = node.scope,
                                 .what = node.op + " workspace",
                                 .state = ""});
    }
  }

  // A kernel prepares itself to answer, which may take as long as a sequence: blocks that are alike ask once.
  int64_t workspace_bytes(uint32_t n) {
    const auto [at, is_new] = workspace_bytes_.try_emplace(n, 0);
    if (is_new) {
      const ir::Node& node = graph_.nodes()[n];
      const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
      at->second = target_.workspace_bytes(node.op, {operands, results, node.attrs});
    }
    return at->second;
  }

  // All results are looked at before the first is placed: each keeps the row of all operands alive. Results that are
  // not all made afresh go their own ways, or the row would have holes.
  void place_collective(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    std::vector<std::optional<ValueId>> operands;
    for (size_t r = 0; r < node.results.size(); ++r) operands.push_back(takes_over(n, r));
    const bool any = std::any_of(operands.begin(), operands.end(), [](const auto& o) { return o.has_value(); });
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (any && is_in_row_of(node.results[r], n)) leave_row(node.results[r]);
      place_result(n, r, operands[r]);
    }
    for (const ValueId operand : node.operands)  // may be read until the collective is done
      buffer(operand).last = std::max(buffer(operand).last, done_at_[n]);
  }

  void place_copy(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    const ir::Tier tier = ops::tier_of(node);
    place_result(n, 0, std::nullopt);
    Buffer& to = buffer(node.results[0]);
    if (to.state.empty()) to.tier = tier;
    MEGACPP_CHECK(to.tier == tier) << graph_.name() << ": " << node.op << " @" << node.scope << " to "
                                   << node.attrs.text("to") << " replaces state in the other memory";
    Buffer& from = buffer(node.operands[0]);
    from.last = std::max(from.last, done_at_[n]);  // may be read until the copy is done
  }

  bool is_in_row_of(ValueId value, uint32_t n) const {
    const int row = row_of_[value.index];
    return row >= 0 && rows_[static_cast<size_t>(row)].of == n;
  }

  void leave_row(ValueId value) {
    row_of_[value.index] = -1;
    result_.place_in[value.index] = 0;
  }

  // `operand`: whose place the result takes.
  void place_result(uint32_t n, size_t r, const std::optional<ValueId>& operand) {
    const ir::Node& node = graph_.nodes()[n];
    const ValueId value = node.results[r];
    if (operand) {
      join(value, *operand);
      return;
    }
    if (const auto state = finished_state(n, value)) {
      join(value, *state);
      return;
    }
    if (row_of_[value.index] >= 0) {
      place_in_row(n, value);
      return;
    }
    result_.buffer_of[value.index] = static_cast<int>(result_.buffers.size());
    result_.buffers.push_back({.bytes = target_.bytes_of_value(graph_.type(value)),
                               .first = n,
                               .last = std::max(n, last_use_[value.index]),
                               .role = node.role,
                               .scope = node.scope,
                               .what = node.op + " " + to_string(graph_.type(value)),
                               .state = ""});
  }

  // The first member to be made brings the buffer of all.
  void place_in_row(uint32_t n, ValueId value) {
    Row& row = rows_[static_cast<size_t>(row_of_[value.index])];
    const ir::Node& node = graph_.nodes()[n];
    if (row.buffer < 0) {
      row.buffer = static_cast<int>(result_.buffers.size());
      result_.buffers.push_back({.bytes = row.bytes,
                                 .first = n,
                                 .last = std::max(n, row.last),
                                 .role = node.role,
                                 .scope = node.scope,
                                 .what = row.what,
                                 .state = ""});
    }
    result_.buffer_of[value.index] = row.buffer;
  }

  void join(ValueId value, ValueId into) {
    result_.buffer_of[value.index] = result_.buffer_of[into.index];
    result_.place_in[value.index] = result_.place_in[into.index];
    Buffer& shared = buffer(value);
    shared.last = std::max(shared.last, last_use_[value.index]);
    if (shared.state.empty() && graph_.producer(value).role != ir::Role::temporary)
      shared.role = graph_.producer(value).role;
  }

  // What the type takes where that buffer is.
  int64_t bytes_in(const Buffer& buffer, const ir::TensorType& type) const {
    return buffer.state.empty() ? target_.bytes_of_value(type) : target_.bytes_of_state(type);
  }

  // The operand whose bytes result r may overwrite: read here for the last time and laid out element for element alike.
  std::optional<ValueId> takes_over(uint32_t n, size_t r) {
    const ir::Node& node = graph_.nodes()[n];
    std::optional<ValueId> best;
    if (row_of_[node.results[r].index] >= 0 && !is_in_row_of(node.results[r], n)) return best;  // its place is kept
    for (const size_t i : aliasable_operands(node, r)) {
      const ValueId operand = node.operands[i];
      const Buffer& from = buffer(operand);
      const ir::TensorType &mine = graph_.type(node.results[r]), &theirs = graph_.type(operand);
      const bool same_layout = mine.elements() == theirs.elements() && mine.dtype == theirs.dtype &&
                               (from.bytes == bytes_in(from, mine) || is_in_row_of(operand, n));
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
    return state.last < n && state.bytes == target_.bytes_of_state(graph_.type(value)) ? std::optional(input->second)
                                                                                       : std::nullopt;
  }

  // Whether operand i's bytes are read under another operand too, or were already taken over by an earlier result.
  bool is_shared(const ir::Node& node, size_t i) const {
    const auto is_mine = [&](ValueId value) {
      return result_.buffer_of[value.index] == result_.buffer_of[node.operands[i].index] &&
             result_.place_in[value.index] == result_.place_in[node.operands[i].index];
    };
    for (size_t j = 0; j < node.operands.size(); ++j)
      if (j != i && is_mine(node.operands[j])) return true;
    return std::any_of(node.results.begin(), node.results.end(), is_mine);
  }

  // State may be overwritten only by the output that replaces it; and such an output goes nowhere else when it can.
  bool may_overwrite(const Buffer& from, ValueId result) const {
    const auto donated = donated_to_.find(result.index);
    if (!from.state.empty()) return donated != donated_to_.end() && donated->second == from.state;
    return donated == donated_to_.end();
  }

  std::vector<size_t> aliasable_operands(const ir::Node& node, size_t r) const {
    if (node.op == "fused") return same_element_operands(node, r);
    const ops::OpDef& op = ops::op_def(ops::started_op(node));
    std::vector<size_t> operands;
    if (r != 0 && !op.is_collective) return operands;
    for (const int operand : {op.may_alias < 0 ? -1 : op.may_alias + static_cast<int>(r), op.addend})
      if (operand >= 0 && static_cast<size_t>(operand) < node.operands.size())
        operands.push_back(static_cast<size_t>(operand));
    return operands;
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
  std::vector<uint32_t> last_use_;  // by value
  std::vector<uint32_t> done_at_;   // by node: where the collective it starts is done; 0: it starts none
  std::map<uint32_t, int64_t, ByQuestion> workspace_bytes_;  // by node, one of those that are alike
  std::vector<Row> rows_;
  std::vector<int> row_of_;                     // by value; -1: none
  std::map<uint32_t, std::string> donated_to_;  // value -> state it replaces, or is seen to
  std::map<std::string, ValueId> inputs_;       // state name -> its value
  Buffers result_;
};

}  // namespace

Buffers assign_buffers(const ir::Graph& graph, const schedule::Target& target) { return Assigner(graph, target).run(); }

}  // namespace megacpp::memory
