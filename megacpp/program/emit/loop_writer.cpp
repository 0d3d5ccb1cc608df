// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/loop_writer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace megacpp::emit {
namespace {

using ops::HloType;
using ops::HloValue;
using ops::HloWriter;

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

class LoopWriter {
 public:
  LoopWriter(HloWriter& writer, const ir::Graph& graph, const Pass& pass, FunctionValues& values, const CallPiece& call)
      : w_(writer), graph_(graph), pass_(pass), values_(values), call_(call) {}

  void write() {
    prepare();
    const std::vector<HloValue> last = w_.loop(
        static_cast<int64_t>(pass_.count), state_.carried,
        [&](const HloValue& iteration, const std::vector<HloValue>& carried) { return iterate(iteration, carried); });
    for (const Kept& kept : state_.collected) {
      const size_t stack = values_.stacks().add(last[kept.carried]);
      const PassLeaf& leaf = pass_.leaves[kept.piece][kept.leaf];
      for (size_t j = 0; j < pass_.count; ++j) {
        const ir::ValueId value = !kept.entered ? leaf.values[j] : j > 0 ? leaf.values[j - 1] : leaf.entering;
        if (!values_.stacks().holds(value)) values_.stacks().put(value, {stack, static_cast<int64_t>(pass_.place(j))});
      }
    }
    for (const Kept& kept : state_.handed_on)
      values_.set(pass_.leaves[kept.piece][kept.leaf].values.back(), last[kept.carried]);
  }

 private:
  bool is_read_outside(ir::ValueId value) const {
    return std::ranges::any_of(values_.readers(value),
                               [&](size_t reader) { return reader < pass_.first || reader >= pass_.last(); });
  }

  // Whether something needs all iterations' values, not only the last one that a loop hands on anyway.
  bool is_needed_later(const PassLeaf& leaf) const {
    for (size_t j = 0; j < pass_.count; ++j) {
      if (leaf.is_carried && j + 1 == pass_.count) continue;
      if (is_read_outside(leaf.values[j]) || values_.is_result(leaf.values[j])) return true;
    }
    return false;
  }

  // The stack of state that these values replace, when nothing but the iteration that replaces a part reads that part:
  // the loop then writes into it.
  std::optional<size_t> stack_to_replace(const PassLeaf& leaf) const {
    std::vector<ir::ValueId> old(pass_.count);
    for (size_t j = 0; j < pass_.count; ++j) {
      const std::optional<ir::ValueId> state = values_.replaced_by(leaf.values[j]);
      if (!state) return std::nullopt;
      old[pass_.place(j)] = *state;
      for (const size_t reader : values_.readers(*state))
        if (reader < pass_.first || reader >= pass_.last() || (reader - pass_.first) / pass_.width != j)
          return std::nullopt;
    }
    const auto line = values_.stacks().line(old);
    if (!line || line->start != 0 || line->step != 1) return std::nullopt;
    return line->stack;
  }

  void prepare() {
    for (size_t q = 0; q < pass_.width; ++q) {
      state_.given.emplace_back();
      for (const PassRead& read : pass_.reads[q]) {
        Given given;
        if (read.from == PassRead::From::always) given.always = values_.at_hand(w_, read.values[0]);
        if (read.from == PassRead::From::each) {
          given.line = values_.stacks().line(read.values);
          if (!given.line) given.line = Stacks::Line{values_.stacks().add(values_.stack_of(w_, read.values)), 0, 1};
        }
        state_.given[q].push_back(std::move(given));
      }
    }
    for (size_t q = 0; q < pass_.width; ++q)
      for (size_t l = 0; l < pass_.leaves[q].size(); ++l) {
        const PassLeaf& leaf = pass_.leaves[q][l];
        if (leaf.is_carried) {
          state_.handed_on.push_back({q, l, state_.carried.size()});
          state_.carried.push_back(values_.at_hand(w_, leaf.entering));
        }
        if (!is_needed_later(leaf)) continue;
        const std::optional<size_t> entered = leaf.is_carried ? std::optional(state_.carried.size() - 1) : std::nullopt;
        const HloType type = ops::hlo_type(graph_.type(leaf.values[0]));
        const auto replaced = stack_to_replace(leaf);
        if (replaced) state_.replaced[*replaced] = state_.carried.size();
        state_.collected.push_back({q, l, state_.carried.size(), entered});
        state_.carried.push_back(
            replaced ? values_.stacks().stack(*replaced)
                     : w_.constant(0, {type.element, with_first(static_cast<int64_t>(pass_.count), type.shape)}));
      }
  }

  HloValue place_in(const HloValue& iteration, int64_t start, int64_t step) {
    if (start == 0 && step == 1) return iteration;
    const HloValue base = w_.constant(static_cast<double>(start), iteration.type);
    return step == 1 ? w_.binary("add", base, iteration) : w_.binary("subtract", base, iteration);
  }

  HloValue operand_of(const PassRead& read, const Given& given, const HloValue& iteration,
                      const std::vector<HloValue>& carried, const std::vector<std::vector<HloValue>>& made) {
    switch (read.from) {
      case PassRead::From::same_iteration:
        return made[read.piece][read.leaf];
      case PassRead::From::previous_iteration: {
        const auto is_it = [&](const Kept& one) { return one.piece == read.piece && one.leaf == read.leaf; };
        return carried[std::ranges::find_if(state_.handed_on, is_it)->carried];
      }
      case PassRead::From::always:
        return given.always;
      case PassRead::From::each: {
        const auto replaced = state_.replaced.find(given.line->stack);
        const HloValue& stack =
            replaced == state_.replaced.end() ? values_.stacks().stack(given.line->stack) : carried[replaced->second];
        return w_.take_member(stack, place_in(iteration, given.line->start, given.line->step));
      }
    }
    return {};
  }

  std::vector<HloValue> iterate(const HloValue& iteration, const std::vector<HloValue>& carried) {
    std::vector<std::vector<HloValue>> made;
    for (size_t q = 0; q < pass_.width; ++q) {
      std::vector<HloValue> operands;
      for (size_t r = 0; r < pass_.reads[q].size(); ++r)
        operands.push_back(operand_of(pass_.reads[q][r], state_.given[q][r], iteration, carried, made));
      made.push_back(call_(pass_.first + q, operands));
    }
    std::vector<HloValue> next = carried;
    for (const Kept& kept : state_.handed_on) next[kept.carried] = made[kept.piece][kept.leaf];
    const int64_t last = static_cast<int64_t>(pass_.count) - 1;
    const HloValue place = place_in(iteration, pass_.is_descending ? last : 0, pass_.is_descending ? -1 : 1);
    for (const Kept& kept : state_.collected) {
      const HloValue& one = kept.entered ? carried[*kept.entered] : made[kept.piece][kept.leaf];
      next[kept.carried] = w_.put_member(carried[kept.carried], one, place);
    }
    return next;
  }

  HloWriter& w_;
  const ir::Graph& graph_;
  const Pass& pass_;
  FunctionValues& values_;
  const CallPiece& call_;
  LoopState state_;
};

}  // namespace

void write_loop(HloWriter& writer, const ir::Graph& graph, const Pass& pass, FunctionValues& values,
                const CallPiece& call) {
  LoopWriter(writer, graph, pass, values, call).write();
}

}  // namespace megacpp::emit
