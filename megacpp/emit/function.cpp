// SPDX-License-Identifier: Apache-2.0
#include "megacpp/emit/function.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"

namespace megacpp::emit {
namespace {

using ops::HloType;
using ops::HloValue;
using ops::HloWriter;
using Names = std::vector<HloValue>;  // by value of the graph; empty names where it is not at hand

// Stacks of values while a function is written: where each value lies, and what the stack is called at this point.
class Stacks {
 public:
  struct Place {
    size_t stack = SIZE_MAX;
    int64_t index = 0;
  };

  explicit Stacks(size_t values) : places_(values) {}

  size_t add(const HloValue& stack) {
    stacks_.push_back(stack);
    return stacks_.size() - 1;
  }
  void put(ir::ValueId value, Place place) { places_[value.index] = place; }
  const Place& place(ir::ValueId value) const { return places_[value.index]; }
  bool holds(ir::ValueId value) const { return places_[value.index].stack != SIZE_MAX; }
  const HloValue& stack(size_t index) const { return stacks_[index]; }

  /// The stack that holds these values at start, start + step, ..; step is 1 or -1.
  struct Line {
    size_t stack = 0;
    int64_t start = 0, step = 1;
  };
  std::optional<Line> line(const std::vector<ir::ValueId>& values) const {
    if (!std::ranges::all_of(values, [&](ir::ValueId value) { return holds(value); })) return std::nullopt;
    const Place& first = place(values[0]);
    const Line line{first.stack, first.index, place(values[1]).index > first.index ? 1 : -1};
    for (size_t i = 0; i < values.size(); ++i)
      if (place(values[i]).stack != line.stack ||
          place(values[i]).index != line.start + line.step * static_cast<int64_t>(i))
        return std::nullopt;
    return line;
  }

 private:
  std::vector<HloValue> stacks_;
  std::vector<Place> places_;  // by value of the graph
};

HloValue one_of(HloWriter& w, const HloValue& stack, const HloValue& index) {
  return w.reshape(w.dynamic_slice(stack, 0, index, 1), {stack.type.shape.begin() + 1, stack.type.shape.end()});
}

ir::Shape with_first(int64_t size, ir::Shape shape) {
  shape.insert(shape.begin(), size);
  return shape;
}

class FunctionWriter {
 public:
  FunctionWriter(const FunctionRequest& request, const ir::Mesh& mesh, const FunctionOptions& options,
                 int64_t& next_channel)
      : request_(request),
        graph_(request.program.graph),
        pieces_(request.program.pieces),
        mesh_(mesh),
        options_(options),
        next_channel_(next_channel),
        stacks_(graph_.values().size()),
        names_(graph_.values().size()),
        readers_(graph_.values().size()) {
    for (size_t p = 0; p < pieces_.size(); ++p)
      for (const ir::ValueId value : pieces_[p].reads) readers_[value.index].push_back(p);
    for (const ir::Output& output : graph_.outputs()) outputs_[output.name] = &output;
    for (const ir::NodeId id : graph_.inputs())
      inputs_[graph_.node(id).attrs.text("name")] = graph_.node(id).results[0];
    for (const Slot& slot : request_.outputs)
      for (const std::string& name : slot.names) {
        const ir::Output& output = *outputs_.at(name);
        leaving_.insert(output.value.index);
        if (const auto donor = inputs_.find(output.donated); donor != inputs_.end())
          replaces_.emplace(output.value.index, donor->second);
      }
  }

  std::string write() {
    std::vector<std::string> arguments, results, types;
    enter(arguments);
    HloWriter w(mesh_, next_channel_, options_.has_mixed_products);
    auto pass = request_.passes.begin();
    for (size_t p = 0; p < pieces_.size();) {
      if (pass != request_.passes.end() && pass->first == p) {
        write_pass(w, *pass);
        p = pass++->last();
      } else {
        write_piece(w, p++);
      }
    }
    for (const Slot& slot : request_.outputs) {
      const HloValue value = slot.is_stack() ? stack_of(w, values_of(slot)) : at_hand(w, values_of(slot)[0]);
      results.push_back(value.name);
      types.push_back(ops::to_text(value.type));
    }
    return function_text(request_.name, arguments, w, results, types) + called_;
  }

 private:
  static std::string function_text(const std::string& name, const std::vector<std::string>& arguments,
                                   const HloWriter& body, const std::vector<std::string>& results,
                                   const std::vector<std::string>& types) {
    return fmt::format("func.func private @{}({}) -> ({}) {{\n{}  return {}{}{}\n}}\n", name,
                       fmt::join(arguments, ", "), fmt::join(types, ", "), body.text(), fmt::join(results, ", "),
                       types.empty() ? "" : " : ", fmt::join(types, ", "));
  }

  void enter(std::vector<std::string>& arguments) {
    for (const Slot& slot : request_.inputs) {
      const HloValue value{fmt::format("%arg{}", arguments.size()),
                           ops::hlo_type(slot_type(slot, graph_.type(inputs_.at(slot.names[0]))))};
      arguments.push_back(fmt::format("{}: {}", value.name, ops::to_text(value.type)));
      if (!slot.is_stack()) {
        names_[inputs_.at(slot.names[0]).index] = value;
        continue;
      }
      const size_t stack = stacks_.add(value);
      for (size_t i = 0; i < slot.names.size(); ++i)
        stacks_.put(inputs_.at(slot.names[i]), {stack, static_cast<int64_t>(i)});
    }
  }

  std::vector<ir::ValueId> values_of(const Slot& slot) const {
    std::vector<ir::ValueId> values;
    for (const std::string& name : slot.names) values.push_back(outputs_.at(name)->value);
    return values;
  }

  // A value outside of loops; one that lies in a stack is taken out of it once.
  const HloValue& at_hand(HloWriter& w, ir::ValueId value) {
    HloValue& name = names_[value.index];
    if (name.name.empty()) {
      MEGACPP_CHECK(stacks_.holds(value)) << request_.name << ": value " << value.index << " is read before it is made";
      const Stacks::Place& place = stacks_.place(value);
      const HloValue& stack = stacks_.stack(place.stack);
      name = w.reshape(w.slice(stack, 0, place.index, 1), {stack.type.shape.begin() + 1, stack.type.shape.end()});
    }
    return name;
  }

  // Values stacked in this order: a stack as it lies, or a new one.
  HloValue stack_of(HloWriter& w, const std::vector<ir::ValueId>& values) {
    if (const auto line = stacks_.line(values))
      if (line->start == 0 && line->step == 1 &&
          stacks_.stack(line->stack).type.shape[0] == static_cast<int64_t>(values.size()))
        return stacks_.stack(line->stack);
    std::vector<HloValue> parts;
    for (const ir::ValueId value : values) {
      const HloValue& one = at_hand(w, value);
      parts.push_back(w.reshape(one, with_first(1, one.type.shape)));
    }
    return w.concatenate(parts, 0);
  }

  // ---- Pieces ----

  std::string name_of(size_t piece) const { return fmt::format("{}_piece{}", request_.name, piece); }

  void write_piece(HloWriter& w, size_t p) {
    const Piece& piece = pieces_[p];
    for (const ir::ValueId value : piece.reads) at_hand(w, value);
    if (!options_.is_rolled || !piece.is_repeated) {
      write_nodes(w, piece, names_);
      return;
    }
    std::vector<HloValue> operands;
    for (const ir::ValueId value : piece.reads) operands.push_back(names_[value.index]);
    const std::vector<HloValue> results = call(w, p, operands);
    for (size_t r = 0; r < results.size(); ++r) names_[piece.leaves[r].index] = results[r];
  }

  std::vector<HloValue> call(HloWriter& w, size_t p, const std::vector<HloValue>& operands) {
    const Piece& piece = pieces_[p];
    if (piece.kind == p) called_ += piece_function(p);
    std::vector<HloType> types;
    for (const ir::ValueId value : piece.leaves) types.push_back(ops::hlo_type(graph_.type(value)));
    w.set_location(graph_.nodes()[piece.nodes[0]].scope);
    return w.call(name_of(piece.kind), operands, types);
  }

  std::string piece_function(size_t p) {
    const Piece& piece = pieces_[p];
    Names names(graph_.values().size());
    std::vector<std::string> arguments, results, types;
    for (const ir::ValueId value : piece.reads) {
      names[value.index] = {fmt::format("%arg{}", arguments.size()), ops::hlo_type(graph_.type(value))};
      arguments.push_back(fmt::format("{}: {}", names[value.index].name, ops::to_text(names[value.index].type)));
    }
    HloWriter w(mesh_, next_channel_, options_.has_mixed_products);
    write_nodes(w, piece, names);
    for (const ir::ValueId value : piece.leaves) {
      results.push_back(names[value.index].name);
      types.push_back(ops::to_text(names[value.index].type));
    }
    return function_text(name_of(p), arguments, w, results, types);
  }

  void write_nodes(HloWriter& w, const Piece& piece, Names& names) const {
    if (piece.is_return && !piece.reads.empty()) hold_back(w, piece, names);
    for (const size_t n : piece.nodes) {
      const ir::Node& node = graph_.nodes()[n];
      const ops::OpDef& op = ops::op_def(node.op);
      MEGACPP_CHECK(op.stablehlo) << node.op << " @" << node.scope << " has no StableHLO form";
      std::vector<HloValue> operands;
      for (const ir::ValueId operand : node.operands) operands.push_back(names[operand.index]);
      const ops::Types operand_types = graph_.operand_types(node), result_types = graph_.result_types(node);
      const ops::NodeView view{operand_types, result_types, node.attrs};
      w.set_location(node.scope);
      const ops::HloResults results = op.stablehlo(w, {operands, view});
      for (size_t r = 0; r < node.results.size(); ++r) names[node.results[r].index] = results[r];
    }
  }

  // XLA would see that the backward pass computes again what the forward pass did, and keep it instead: weights of
  // attention, gathered parameters. Behind a barrier the two are different, and nothing begins before its turn.
  static void hold_back(HloWriter& w, const Piece& piece, Names& names) {
    std::vector<HloValue> values;
    for (const ir::ValueId value : piece.reads) values.push_back(names[value.index]);
    const std::vector<HloValue> held = w.barrier(values);
    for (size_t i = 0; i < held.size(); ++i) names[piece.reads[i].index] = held[i];
  }

  // ---- Loops ----

  // A leaf of a pass and where it stands among what the loop carries.
  struct Kept {
    size_t piece, leaf;
    size_t carried;
    /// Of a leaf that is handed on, what entered each iteration is collected, not what left it: that is what a backward
    /// pass reads, and the last value is at hand anyway.
    std::optional<size_t> entered = {};
  };
  // What an iteration reads that is neither its own nor the previous one's.
  struct Given {
    HloValue always = {};
    std::optional<Stacks::Line> line = {};
  };
  struct LoopState {
    std::vector<HloValue> carried;
    std::vector<Kept> handed_on, collected;
    std::unordered_map<size_t, size_t> replaced;  // stack -> the carried one that takes its place
    std::vector<std::vector<Given>> given;        // [piece][read]
  };

  bool is_read_outside(const Pass& pass, ir::ValueId value) const {
    return std::ranges::any_of(readers_[value.index],
                               [&](size_t reader) { return reader < pass.first || reader >= pass.last(); });
  }

  // Whether something needs all iterations' values, not only the last one that a loop hands on anyway.
  bool is_needed_later(const Pass& pass, const PassLeaf& leaf) const {
    for (size_t j = 0; j < pass.count; ++j) {
      if (leaf.is_carried && j + 1 == pass.count) continue;
      if (is_read_outside(pass, leaf.values[j]) || leaving_.contains(leaf.values[j].index)) return true;
    }
    return false;
  }

  // The stack of state that these values replace, when nothing but the iteration that replaces a part reads that part:
  // the loop then writes into it.
  std::optional<size_t> stack_to_replace(const Pass& pass, const PassLeaf& leaf) const {
    std::vector<ir::ValueId> old(pass.count);
    for (size_t j = 0; j < pass.count; ++j) {
      const auto state = replaces_.find(leaf.values[j].index);
      if (state == replaces_.end()) return std::nullopt;
      old[pass.place(j)] = state->second;
      for (const size_t reader : readers_[state->second.index])
        if (reader < pass.first || reader >= pass.last() || (reader - pass.first) / pass.width != j)
          return std::nullopt;
    }
    const auto line = stacks_.line(old);
    if (!line || line->start != 0 || line->step != 1) return std::nullopt;
    return line->stack;
  }

  LoopState prepare(HloWriter& w, const Pass& pass) {
    LoopState state;
    for (size_t q = 0; q < pass.width; ++q) {
      state.given.emplace_back();
      for (const PassRead& read : pass.reads[q]) {
        Given given;
        if (read.from == PassRead::From::always) given.always = at_hand(w, read.values[0]);
        if (read.from == PassRead::From::each) {
          given.line = stacks_.line(read.values);
          if (!given.line) given.line = Stacks::Line{stacks_.add(stack_of(w, read.values)), 0, 1};
        }
        state.given[q].push_back(std::move(given));
      }
    }
    for (size_t q = 0; q < pass.width; ++q)
      for (size_t l = 0; l < pass.leaves[q].size(); ++l) {
        const PassLeaf& leaf = pass.leaves[q][l];
        if (leaf.is_carried) {
          state.handed_on.push_back({q, l, state.carried.size()});
          state.carried.push_back(at_hand(w, leaf.entering));
        }
        if (!is_needed_later(pass, leaf)) continue;
        const std::optional<size_t> entered = leaf.is_carried ? std::optional(state.carried.size() - 1) : std::nullopt;
        const HloType type = ops::hlo_type(graph_.type(leaf.values[0]));
        const auto replaced = stack_to_replace(pass, leaf);
        if (replaced) state.replaced[*replaced] = state.carried.size();
        state.collected.push_back({q, l, state.carried.size(), entered});
        state.carried.push_back(
            replaced ? stacks_.stack(*replaced)
                     : w.constant(0, {type.element, with_first(static_cast<int64_t>(pass.count), type.shape)}));
      }
    return state;
  }

  static HloValue place_in(HloWriter& w, const HloValue& iteration, int64_t start, int64_t step) {
    if (start == 0 && step == 1) return iteration;
    const HloValue base = w.constant(static_cast<double>(start), iteration.type);
    return step == 1 ? w.binary("add", base, iteration) : w.binary("subtract", base, iteration);
  }

  std::vector<HloValue> iterate(HloWriter& w, const Pass& pass, const LoopState& state, const HloValue& iteration,
                                const std::vector<HloValue>& carried) {
    std::vector<std::vector<HloValue>> made;
    for (size_t q = 0; q < pass.width; ++q) {
      std::vector<HloValue> operands;
      for (size_t r = 0; r < pass.reads[q].size(); ++r) {
        const PassRead& read = pass.reads[q][r];
        const Given& given = state.given[q][r];
        if (read.from == PassRead::From::same_iteration) {
          operands.push_back(made[read.piece][read.leaf]);
        } else if (read.from == PassRead::From::always) {
          operands.push_back(given.always);
        } else if (read.from == PassRead::From::each) {
          const auto replaced = state.replaced.find(given.line->stack);
          const HloValue& stack =
              replaced == state.replaced.end() ? stacks_.stack(given.line->stack) : carried[replaced->second];
          operands.push_back(one_of(w, stack, place_in(w, iteration, given.line->start, given.line->step)));
        } else {
          const auto kept = std::ranges::find_if(
              state.handed_on, [&](const Kept& one) { return one.piece == read.piece && one.leaf == read.leaf; });
          operands.push_back(carried[kept->carried]);
        }
      }
      made.push_back(call(w, pass.first + q, operands));
    }
    std::vector<HloValue> next = carried;
    for (const Kept& kept : state.handed_on) next[kept.carried] = made[kept.piece][kept.leaf];
    const int64_t last = static_cast<int64_t>(pass.count) - 1;
    const HloValue place = place_in(w, iteration, pass.is_descending ? last : 0, pass.is_descending ? -1 : 1);
    for (const Kept& kept : state.collected) {
      const HloValue& one = kept.entered ? carried[*kept.entered] : made[kept.piece][kept.leaf];
      next[kept.carried] =
          w.dynamic_update_slice(carried[kept.carried], w.reshape(one, with_first(1, one.type.shape)), place);
    }
    return next;
  }

  void write_pass(HloWriter& w, const Pass& pass) {
    const LoopState state = prepare(w, pass);
    const std::vector<HloValue> last = w.loop(static_cast<int64_t>(pass.count), state.carried,
                                              [&](const HloValue& iteration, const std::vector<HloValue>& carried) {
                                                return iterate(w, pass, state, iteration, carried);
                                              });
    for (const Kept& kept : state.collected) {
      const size_t stack = stacks_.add(last[kept.carried]);
      const PassLeaf& leaf = pass.leaves[kept.piece][kept.leaf];
      for (size_t j = 0; j < pass.count; ++j) {
        const ir::ValueId value = !kept.entered ? leaf.values[j] : j > 0 ? leaf.values[j - 1] : leaf.entering;
        if (!stacks_.holds(value)) stacks_.put(value, {stack, static_cast<int64_t>(pass.place(j))});
      }
    }
    for (const Kept& kept : state.handed_on)
      names_[pass.leaves[kept.piece][kept.leaf].values.back().index] = last[kept.carried];
  }

  const FunctionRequest& request_;
  const ir::Graph& graph_;
  const std::vector<Piece>& pieces_;
  const ir::Mesh& mesh_;
  const FunctionOptions& options_;
  int64_t& next_channel_;
  Stacks stacks_;
  Names names_;
  std::vector<std::vector<size_t>> readers_;  // by value: pieces
  std::unordered_map<std::string, const ir::Output*> outputs_;
  std::unordered_map<std::string, ir::ValueId> inputs_;
  std::unordered_set<uint32_t> leaving_;                // values that are results
  std::unordered_map<uint32_t, ir::ValueId> replaces_;  // result -> the state whose place it takes
  std::string called_;
};

}  // namespace

std::string write_function(const FunctionRequest& request, const ir::Mesh& mesh, const FunctionOptions& options,
                           int64_t& next_channel) {
  return FunctionWriter(request, mesh, options, next_channel).write();
}

std::vector<Slot> input_slots(const ir::Graph& graph) {
  std::vector<Slot> slots;
  for (const ir::NodeId id : graph.inputs()) slots.push_back({{graph.node(id).attrs.text("name")}});
  return slots;
}

std::vector<Slot> output_slots(const ir::Graph& graph) {
  std::vector<Slot> slots;
  for (const ir::Output& output : graph.outputs()) slots.push_back({{output.name}});
  return slots;
}

ir::TensorType slot_type(const Slot& slot, ir::TensorType type) {
  if (slot.is_stack()) type.shape = with_first(static_cast<int64_t>(slot.names.size()), std::move(type.shape));
  return type;
}

}  // namespace megacpp::emit
