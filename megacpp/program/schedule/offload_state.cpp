// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/offload_state.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;

/// A tensor that the optimizer keeps: what the program reads, and what replaces it.
struct HeldState {
  ValueId before, after;
  uint32_t reader;  // the first node that reads `before`
  uint32_t writer;  // the node that makes `after`
};

/// States with the same first reader.
struct HeldUnit {
  uint32_t at = 0;  // that reader
  int64_t bytes = 0;
  std::vector<size_t> states = {};
};

class StateOffloader {
 public:
  StateOffloader(const ir::Graph& graph, ir::Tier tier) : graph_(graph), tier_(tier), rewriter_(graph) {
    find_states();
    find_units();
    place_copies();
  }

  ir::Graph run() {
    const uint32_t count = static_cast<uint32_t>(graph_.nodes().size());
    for (const ir::NodeId id : graph_.inputs()) append_input(graph_.node(id));  // what is fetched early is there
    for (uint32_t n = 0; n < count; ++n) {
      if (graph_.nodes()[n].op == ir::kInputOp) continue;
      // Stores that are due come first: what they free is what the next fetches fill.
      for (const size_t s : stored_at_[n]) finish_store(s);
      for (const size_t s : fetch_at_[n]) start_fetch(s);
      for (const size_t s : fetched_at_[n]) finish_fetch(s);
      rewriter_.copy(graph_.nodes()[n]);
      for (const size_t s : store_at_[n]) start_store(s);
    }
    for (const size_t s : stored_at_[count]) finish_store(s);
    return finish();
  }

 private:
  void find_states() {
    std::map<std::string, ValueId> replaced;
    for (const ir::Output& output : graph_.outputs())
      if (!output.donated.empty()) replaced[output.donated] = output.value;
    const std::vector<std::vector<ir::NodeId>> users = graph_.users();
    for (const ir::NodeId id : graph_.inputs()) {
      const ir::Node& node = graph_.node(id);
      if (node.role != ir::Role::optimizer) continue;
      const std::string& name = node.attrs.text("name");
      const ValueId before = node.results[0];
      const auto after = replaced.find(name);
      MEGACPP_CHECK(after != replaced.end() && !users[before.index].empty())
          << graph_.name() << " does not read and replace " << name;
      const uint32_t writer = graph_.value(after->second).producer.index;
      MEGACPP_CHECK(graph_.nodes()[writer].op != ir::kInputOp) << graph_.name() << " leaves " << name << " as it is";
      states_.push_back({before, after->second, users[before.index].front().index, writer});
    }
  }

  void find_units() {
    std::map<uint32_t, HeldUnit> by_reader;
    for (size_t s = 0; s < states_.size(); ++s) {
      HeldUnit& unit = by_reader[states_[s].reader];
      unit.at = states_[s].reader;
      unit.bytes += graph_.type(states_[s].before).bytes();
      unit.states.push_back(s);
    }
    for (auto& [at, unit] : by_reader) units_.push_back(std::move(unit));
  }

  /// Bytes of units in flight on either side of the one that is worked on, itself included.
  int64_t window() const {
    int64_t largest = 0;
    for (const HeldUnit& unit : units_) largest = std::max(largest, unit.bytes);
    return 2 * largest;
  }

  void place_copies() {
    const size_t nodes = graph_.nodes().size();
    fetch_at_.resize(nodes);
    fetched_at_.resize(nodes);
    store_at_.resize(nodes);
    stored_at_.resize(nodes + 1);
    const int64_t most = window();
    size_t first = 0;   // of the units that are worked on when this one is fetched
    int64_t ahead = 0;  // bytes from there up to this one
    for (size_t u = 0; u < units_.size(); ++u) {
      ahead += units_[u].bytes;
      for (; ahead > most; ++first) ahead -= units_[first].bytes;
      for (const size_t s : units_[u].states) {
        fetch_at_[units_[first].at].push_back(s);
        fetched_at_[units_[u].at].push_back(s);
        store_at_[states_[s].writer].push_back(s);
        stored_at_[stored_by(u, s, most)].push_back(s);
      }
    }
  }

  /// Where the store of a state of unit u must be done: before the first unit that is too many bytes behind it. A
  /// writer may stand later than that, where it waits for other chips: then before the next unit, or at the end.
  uint32_t stored_by(size_t u, size_t s, int64_t most) const {
    int64_t behind = units_[u].bytes;
    for (size_t next = u + 1; next < units_.size(); ++next) {
      behind += units_[next].bytes;
      if (behind > most && units_[next].at > states_[s].writer) return units_[next].at;
    }
    return static_cast<uint32_t>(graph_.nodes().size());
  }

  void append_input(const ir::Node& node) {
    if (node.role != ir::Role::optimizer) return rewriter_.copy(node);
    ir::Node held = node;
    ops::place_input(held, tier_);
    rewriter_.replace(node.results, std::move(held), graph_.result_types(node));
  }

  /// In the scope of what it is for.
  ValueId append_copy(std::string_view op, ValueId operand, const ir::Node& of, ir::Attrs attrs) {
    ir::Node node{.op = std::string(op),
                  .operands = {operand},
                  .results = {},
                  .attrs = std::move(attrs),
                  .scope = of.scope,
                  .role = ir::Role::optimizer};
    return rewriter_.append(std::move(node), {rewriter_.graph().type(operand)})[0];
  }

  const ir::Node& input_of(size_t s) const { return graph_.producer(states_[s].before); }

  void start_fetch(size_t s) {
    started_[s] =
        append_copy(ops::kCopyStartOp, rewriter_.map(states_[s].before), input_of(s), ops::copy_to(ir::Tier::device));
  }

  void finish_fetch(size_t s) {
    rewriter_.set(states_[s].before, append_copy(ops::kCopyDoneOp, started_.at(s), input_of(s), {}));
  }

  void start_store(size_t s) {
    started_[s] = append_copy(ops::kCopyStartOp, rewriter_.map(states_[s].after), input_of(s), ops::copy_to(tier_));
  }

  void finish_store(size_t s) {
    stored_[input_of(s).attrs.text("name")] = append_copy(ops::kCopyDoneOp, started_.at(s), input_of(s), {});
  }

  ir::Graph finish() {
    ir::Graph& made = rewriter_.graph();
    for (ir::Output output : graph_.outputs()) {
      const auto stored = stored_.find(output.donated);
      output.value = stored == stored_.end() ? rewriter_.map(output.value) : stored->second;
      made.add_output(std::move(output));
    }
    return std::move(made);
  }

  const ir::Graph& graph_;
  const ir::Tier tier_;
  Rewriter rewriter_;
  std::vector<HeldState> states_;
  std::vector<HeldUnit> units_;  // in the order of their readers
  // By node, states whose copy: to the device starts before it, is done before it; to the host starts behind it, is
  // done before it.
  std::vector<std::vector<size_t>> fetch_at_, fetched_at_, store_at_, stored_at_;
  std::map<size_t, ValueId> started_;      // by state: the copy that is under way
  std::map<std::string, ValueId> stored_;  // by name of the state
};

}  // namespace

ir::Graph offload_state(const ir::Graph& graph, ir::Tier tier) { return StateOffloader(graph, tier).run(); }

}  // namespace megacpp::schedule
