// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/overlap_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/collective_traffic.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// What stands before a node of the given order, in this order.
enum class Step : uint8_t { input, done, late, early, start, node };

// Part of the new order: a step of `node`, placed with the node that stood at `at`.
struct Item {
  uint32_t at;
  Step step;
  uint32_t node;
  auto operator<=>(const Item&) const = default;
};

bool can_start(const ir::Node& node) {
  const std::optional<ops::Transfer>& transfer = ops::op_def(node.op).transfer;
  return transfer && transfer->is_of_group();
}

// Decides where each collective starts and is done.
class Placer {
 public:
  Placer(const ir::Graph& graph, const OverlapPolicy& policy)
      : graph_(graph),
        prefetch_(static_cast<size_t>(policy.prefetch)),
        map_(map_traffic(graph)),
        readers_(count_readers(graph)) {}

  std::vector<Item> run() {
    find_readers();
    find_runs();
    for (uint32_t n = 0; n < count(); ++n)
      if (can_start(node(n))) start_[n] = early_start(n);
    prefetch_weights();
    for (uint32_t n = 0; n < count(); ++n)
      if (can_start(node(n))) done_[n] = is_stored_gradient(n) ? n + 1 : first_reader_[n];
    delay_replaced_state();
    std::vector<Item> items;
    for (uint32_t n = 0; n < count(); ++n) {
      if (can_start(node(n))) {
        items.push_back({start_[n], Step::start, n});
        items.push_back({done_[n], Step::done, n});
      } else {
        items.push_back(item_of(n));
      }
    }
    std::sort(items.begin(), items.end());
    return items;
  }

 private:
  using Unit = std::vector<uint32_t>;  // collectives of one visit of a block

  Item item_of(uint32_t n) const {
    if (node(n).op == ir::kInputOp) return {0, Step::input, n};
    if (early_[n] < n) return {early_[n], Step::early, n};
    return {std::max(n, late_[n]), late_[n] > 0 ? Step::late : Step::node, n};
  }

  uint32_t count() const { return static_cast<uint32_t>(graph_.nodes().size()); }
  const ir::Node& node(uint32_t n) const { return graph_.nodes()[n]; }

  void find_readers() {
    start_.assign(count(), 0);
    done_.assign(count(), 0);
    late_.assign(count(), 0);
    early_.assign(count(), count());
    first_reader_.assign(count(), count());
    reaches_collective_.assign(count(), false);
    for (uint32_t n = count(); n-- > 0;) {
      for (const ir::ValueId operand : node(n).operands) {
        const uint32_t from = graph_.value(operand).producer.index;
        first_reader_[from] = n;
        if (can_start(node(n)) || reaches_collective_[n]) reaches_collective_[from] = true;
      }
    }
  }

  // Where the block of each node was entered.
  void find_runs() {
    run_start_.assign(count(), 0);
    for (uint32_t n = 1; n < count(); ++n) {
      const bool same = ir::scope_block(node(n).scope) == ir::scope_block(node(n - 1).scope);
      run_start_[n] = same ? run_start_[n - 1] : n;
    }
  }

  bool is_weight_gather(uint32_t n) const { return map_.traffic[n] == Traffic::weight && map_.is_of_weights[n]; }

  // What a chip makes of its own part of a weight for one gather alone, as by narrowing it: it goes with the start.
  bool is_preparation(uint32_t n) const {
    if (can_start(node(n)) || node(n).operands.size() != 1 || node(n).results.size() != 1) return false;
    const ir::Node& from = graph_.producer(node(n).operands[0]);
    return from.op == ir::kInputOp && from.role == ir::Role::weight && readers_[node(n).results[0].index] == 1 &&
           first_reader_[n] < count() && is_weight_gather(first_reader_[n]);
  }

  // The value itself, or what it is prepared of.
  ir::ValueId source(ir::ValueId value) const {
    const uint32_t from = graph_.value(value).producer.index;
    return is_preparation(from) ? node(from).operands[0] : value;
  }

  // The first place where all operands are there. What another collective brings is there when it is first read.
  uint32_t ready(uint32_t n) const {
    uint32_t at = 0;
    for (const ir::ValueId operand : node(n).operands) {
      const uint32_t from = graph_.value(source(operand)).producer.index;
      if (node(from).op == ir::kInputOp) continue;
      at = std::max(at, can_start(node(from)) ? first_reader_[from] : from + 1);
    }
    return at;
  }

  // Nothing reads it: without being put off like those that are added to state, it would hold its operands to the end.
  bool is_stored_gradient(uint32_t n) const {
    return first_reader_[n] == count() && map_.traffic[n] == Traffic::gradient;
  }

  // A gather makes tensors larger: earlier than wanted it would only take memory.
  uint32_t early_start(uint32_t n) const {
    if (ops::transfer_of(node(n))->kind == ops::Transfer::Kind::gather) return n;
    return map_.traffic[n] == Traffic::gradient ? ready(n) : std::max(ready(n), run_start_[n]);
  }

  // Collectives of a kind by block, each time it is visited: what moves a second time is wanted by another visit.
  template <typename Wanted>
  std::vector<Unit> units_of(const Wanted& wanted) const {
    std::vector<Unit> units;
    std::set<ir::ValueId> moved;  // by the last unit
    for (uint32_t n = 0; n < count(); ++n) {
      if (!can_start(node(n)) || !wanted(n)) continue;
      const bool continues = !units.empty() && !moved.contains(source(node(n).operands[0])) &&
                             ir::scope_block(node(units.back()[0]).scope) == ir::scope_block(node(n).scope);
      if (!continues) {
        units.emplace_back();
        moved.clear();
      }
      units.back().push_back(n);
      for (const ir::ValueId operand : node(n).operands) moved.insert(source(operand));
    }
    return units;
  }

  static uint32_t least(const Unit& unit, const std::vector<uint32_t>& of) {
    uint32_t least = UINT32_MAX;
    for (const uint32_t n : unit) least = std::min(least, of[n]);
    return least;
  }

  void prefetch_weights() {
    const std::vector<Unit> units = units_of([this](uint32_t n) { return is_weight_gather(n); });
    for (size_t u = 0; u < units.size(); ++u) {
      const uint32_t wanted = u < prefetch_ ? 0 : least(units[u - prefetch_], first_reader_);
      for (const uint32_t n : units[u]) {
        start_[n] = std::min(n, std::max(ready(n), wanted));
        for (const ir::ValueId operand : node(n).operands)
          if (source(operand) != operand) early_[graph_.value(operand).producer.index] = start_[n];
      }
    }
  }

  void delay_replaced_state() {
    if (prefetch_ == 0) return;
    for (const Traffic traffic : {Traffic::gradient, Traffic::weight}) {
      const std::vector<Unit> units = units_of([&](uint32_t n) {
        return map_.traffic[n] == traffic && map_.only_replaces_state[n] && !reaches_collective_[n];
      });
      for (size_t u = 0; u < units.size(); ++u) {
        const uint32_t until = u + prefetch_ < units.size() ? least(units[u + prefetch_], start_) : count();
        for (const uint32_t n : units[u]) delay(n, until);
      }
    }
    for (uint32_t n = 0; n < count(); ++n)
      for (const ir::ValueId operand : node(n).operands)
        late_[n] = std::max(late_[n], late_[graph_.value(operand).producer.index]);
  }

  // All that reads it only replaces state, and goes with it.
  void delay(uint32_t n, uint32_t until) {
    if (until <= done_[n]) return;
    done_[n] = late_[n] = until;
  }

  const ir::Graph& graph_;
  const size_t prefetch_;
  const TrafficMap map_;
  const std::vector<size_t> readers_;     // by value
  std::vector<uint32_t> start_, done_;    // by collective: the place before which it is
  std::vector<uint32_t> late_;            // by node: the place to which it is put off; 0: stays
  std::vector<uint32_t> early_;           // by node: the place to which it is drawn forward; count(): stays
  std::vector<uint32_t> first_reader_;    // by node; count(): none
  std::vector<uint32_t> run_start_;       // by node
  std::vector<bool> reaches_collective_;  // by node: a collective depends on it
};

class Splitter {
 public:
  Splitter(const ir::Graph& graph, const std::vector<Item>& items) : graph_(graph), items_(items), rewriter_(graph) {
    find_idle();
  }

  ir::Graph run() {
    for (const Item& item : items_) {
      if (item.step == Step::start) {
        start(item.node);
      } else if (item.step == Step::done) {
        if (started_[item.node].index != UINT32_MAX) finish(item.node);
      } else {
        rewriter_.copy(graph_.nodes()[item.node]);
      }
    }
    return rewriter_.finish();
  }

 private:
  struct InFlight {
    int64_t started = 0;               // so far
    std::map<int64_t, uint32_t> open;  // by number: the nodes not done
  };

  // Collectives without any work between start and done.
  void find_idle() {
    started_.assign(graph_.nodes().size(), ir::NodeId{});
    is_idle_.assign(graph_.nodes().size(), false);
    std::vector<size_t> work_at_start(graph_.nodes().size(), 0);
    size_t work = 0;
    for (const Item& item : items_) {
      const ir::Node& node = graph_.nodes()[item.node];
      if (item.step == Step::start) {
        work_at_start[item.node] = work;
      } else if (item.step == Step::done) {
        is_idle_[item.node] = work == work_at_start[item.node];
      } else if (ops::op_def(node.op).is_work()) {
        ++work;
      }
    }
  }

  void start(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    InFlight& in_flight = in_flight_[node.attrs.text("axes")];
    while (!in_flight.open.empty() && in_flight.started - in_flight.open.begin()->first >= kMaxStarted)
      finish(in_flight.open.begin()->second);
    const int64_t number = in_flight.started++;
    if (is_idle_[n]) return rewriter_.copy(node);
    ir::Node start = node;
    start.op = ops::kStartOp;
    start.attrs.set("op", node.op);
    for (ir::ValueId& operand : start.operands) operand = rewriter_.map(operand);
    started_[n] = rewriter_.graph().append(std::move(start), graph_.result_types(node));
    number_[n] = number;
    in_flight.open[number] = n;
  }

  void finish(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    ir::Node done{.op = std::string(ops::kDoneOp),
                  .operands = rewriter_.graph().node(started_[n]).results,
                  .results = {},
                  .attrs = {{"axes", node.attrs.text("axes")}, {"op", node.op}, {"parts", node.attrs.integer("parts")}},
                  .scope = node.scope,
                  .role = node.role};
    rewriter_.replace(node.results, std::move(done), graph_.result_types(node));
    in_flight_[node.attrs.text("axes")].open.erase(number_.at(n));
    started_[n] = {};
  }

  const ir::Graph& graph_;
  const std::vector<Item>& items_;
  Rewriter rewriter_;
  std::vector<bool> is_idle_;                  // by node
  std::vector<ir::NodeId> started_;            // by node: its start, until it is done
  std::map<uint32_t, int64_t> number_;         // by node: in the order of starts over its axes
  std::map<std::string, InFlight> in_flight_;  // by axes
};

}  // namespace

ir::Graph overlap_collectives(const ir::Graph& graph, const OverlapPolicy& policy) {
  const std::vector<Item> items = Placer(graph, policy).run();
  return Splitter(graph, items).run();
}

}  // namespace megacpp::schedule
