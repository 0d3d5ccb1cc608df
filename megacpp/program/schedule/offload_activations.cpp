// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/offload_activations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/schedule/find_activations.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;

bool is_work(const ir::Node& node) { return node.op != ir::kInputOp && !is_reshape(node); }

/// Where copies stand, by the runs of what could be away, chosen or not.
class Runs {
 public:
  Runs(const ir::Graph& graph, const std::vector<Activation>& candidates)
      : first_(static_cast<uint32_t>(std::ranges::find_if(graph.nodes(), is_work) - graph.nodes().begin())),
        end_(static_cast<uint32_t>(graph.nodes().size())) {
    std::set<uint32_t> ends;
    for (const Activation& each : candidates) {
      if (each.made) ends.insert({*each.made, each.left});
      if (each.wanted) ends.insert(*each.wanted);
    }
    // An order may have nodes of a block amid another: a run begins with the first of its block in a pass.
    const uint32_t turn = end_of_forward(graph, candidates);
    std::set<std::pair<std::string_view, bool>> seen;
    for (const uint32_t n : ends)
      if (seen.emplace(ir::scope_block(graph.nodes()[n].scope), n > turn).second) starts_.push_back(n);
  }

  /// The node before which a store is done: where the second run behind the last reader begins, or the program's end.
  uint32_t store_done(uint32_t left) const {
    const size_t run = run_of(left) + 2;
    return run < starts_.size() ? starts_[run] : end_;
  }
  /// The node before which a fetch starts: where the run before the first reader's begins, or the first that works.
  uint32_t fetch_start(uint32_t wanted) const {
    const size_t run = run_of(wanted);
    return run > 0 ? starts_[run - 1] : first_;
  }
  bool is_away(const Activation& each) const { return store_done(each.left) < fetch_start(*each.wanted); }
  /// Whether a copy behind this node is waited for with nothing left to do.
  bool ends_unstored(uint32_t left) const { return store_done(left) == end_; }

 private:
  size_t run_of(uint32_t node) const {
    return static_cast<size_t>(std::ranges::upper_bound(starts_, node) - starts_.begin()) - 1;
  }

  // In a program with both passes: the last node that makes a candidate of the block that begins last. Values of others
  // may be made later, when the backward pass reads them.
  static uint32_t end_of_forward(const ir::Graph& graph, const std::vector<Activation>& candidates) {
    struct Made {
      uint32_t first = UINT32_MAX, last = 0;
      auto operator<=>(const Made&) const = default;
    };
    std::map<std::string_view, Made> by_block;
    for (const Activation& each : candidates) {
      if (!each.made || !each.wanted) return UINT32_MAX;  // one pass alone
      Made& made = by_block[ir::scope_block(graph.nodes()[*each.made].scope)];
      made = {std::min(made.first, *each.made), std::max(made.last, *each.made)};
    }
    Made latest{.first = 0};
    for (const auto& [block, made] : by_block) latest = std::max(latest, made);
    return latest.last;
  }

  const uint32_t first_, end_;    // node that works; behind all
  std::vector<uint32_t> starts_;  // nodes that work, ascending
};

/// Puts the copies of these activations into a program.
class ActivationOffloader {
 public:
  ActivationOffloader(const ir::Graph& graph, const Touches& touches, const Runs& runs,
                      std::vector<Activation> activations, ir::Tier tier)
      : graph_(graph), touches_(touches), tier_(tier), activations_(std::move(activations)), rewriter_(graph) {
    find_views();
    place_copies(runs);
  }

  ir::Graph run() {
    for (const ir::NodeId id : graph_.inputs()) append_input(graph_.node(id));  // what is fetched early is there
    for (uint32_t n = 0; n < count(); ++n) {
      if (graph_.nodes()[n].op == ir::kInputOp || is_lazy_[n]) continue;
      // Stores that are due come first: what they free is what the next fetches fill.
      for (const size_t a : stored_at_[n]) finish_store(a);
      for (const size_t a : fetch_at_[n]) start_fetch(a);
      for (const size_t a : fetched_at_[n]) finish_fetch(a);
      for (const ValueId operand : graph_.nodes()[n].operands) bring(operand);
      rewriter_.copy(graph_.nodes()[n]);
      for (const size_t a : store_at_[n]) start_store(a);
    }
    for (const size_t a : stored_at_[count()]) finish_store(a);
    return finish();
  }

 private:
  uint32_t count() const { return static_cast<uint32_t>(graph_.nodes().size()); }

  // Shapes of what is away belong to what was there before or is fetched later: each is made where it is read.
  void find_views() {
    is_lazy_.assign(count(), false);
    for (const Activation& each : activations_) away_.insert(each.value);
    for (uint32_t n = 0; n < count(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (!is_reshape(node) || !away_.contains(touches_.root(node.results[0]))) continue;
      is_lazy_[n] = true;
      views_[touches_.root(node.results[0])].push_back(node.results[0]);
    }
  }

  void place_copies(const Runs& runs) {
    store_at_.resize(count());
    stored_at_.resize(count() + 1);
    fetch_at_.resize(count());
    fetched_at_.resize(count());
    for (size_t a = 0; a < activations_.size(); ++a) {
      const Activation& each = activations_[a];
      if (!each.made) continue;
      store_at_[each.left].push_back(a);
      stored_at_[runs.store_done(each.left)].push_back(a);
    }
    for (const size_t a : in_order_of_readers()) {
      const uint32_t wanted = *activations_[a].wanted;
      fetch_at_[runs.fetch_start(wanted)].push_back(a);
      fetched_at_[wanted].push_back(a);
    }
  }

  // A direction's copies follow each other: what is read first goes first.
  std::vector<size_t> in_order_of_readers() const {
    std::vector<size_t> order;
    for (size_t a = 0; a < activations_.size(); ++a)
      if (activations_[a].wanted) order.push_back(a);
    std::ranges::stable_sort(order, {}, [this](size_t a) { return *activations_[a].wanted; });
    return order;
  }

  void append_input(const ir::Node& node) {
    if (!away_.contains(node.results[0])) return rewriter_.copy(node);
    ir::Node held = node;
    ops::place_input(held, tier_);
    rewriter_.replace(node.results, std::move(held), graph_.result_types(node));
  }

  void bring(ValueId value) {
    if (rewriter_.has(value)) return;
    const ir::Node& view = graph_.producer(value);
    bring(view.operands[0]);
    rewriter_.copy(view);
  }

  /// In the scope of what it is for.
  ValueId append_copy(size_t a, std::string_view op, ValueId operand, ir::Attrs attrs = {}) {
    ir::Node node{.op = std::string(op),
                  .operands = {operand},
                  .results = {},
                  .attrs = std::move(attrs),
                  .scope = graph_.producer(activations_[a].value).scope,
                  .role = ir::Role::activation};
    return rewriter_.append(std::move(node), {rewriter_.graph().type(operand)})[0];
  }

  void start_store(size_t a) {
    started_[a] = append_copy(a, ops::kCopyStartOp, rewriter_.map(activations_[a].value), ops::copy_to(tier_));
  }

  void finish_store(size_t a) { stored_[a] = append_copy(a, ops::kCopyDoneOp, started_.at(a)); }

  void start_fetch(size_t a) {
    const Activation& each = activations_[a];
    const ValueId held = each.made ? stored_.at(a) : rewriter_.map(each.value);
    started_[a] = append_copy(a, ops::kCopyStartOp, held, ops::copy_to(ir::Tier::device));
  }

  void finish_fetch(size_t a) {
    const ValueId value = activations_[a].value;
    rewriter_.set(value, append_copy(a, ops::kCopyDoneOp, started_.at(a)));
    for (const ValueId view : views_[value]) rewriter_.set(view, ValueId{});
  }

  ir::Graph finish() {
    std::map<std::string, ValueId> on_host;
    for (const auto& [a, value] : stored_)
      if (const std::string& name = activations_[a].name; !name.empty()) on_host[name] = value;
    for (ir::Output output : graph_.outputs()) {
      const auto stored = on_host.find(output.name);
      if (stored == on_host.end()) bring(output.value);
      output.value = stored == on_host.end() ? rewriter_.map(output.value) : stored->second;
      rewriter_.graph().add_output(std::move(output));
    }
    return std::move(rewriter_.graph());
  }

  const ir::Graph& graph_;
  const Touches& touches_;
  const ir::Tier tier_;
  const std::vector<Activation> activations_;
  Rewriter rewriter_;
  std::set<ValueId> away_;                         // values of activations
  std::vector<bool> is_lazy_;                      // by node: a shape of what is away
  std::map<ValueId, std::vector<ValueId>> views_;  // by what is away
  std::vector<std::vector<size_t>> store_at_;      // by node: activations whose copy to the host starts behind it
  std::vector<std::vector<size_t>> stored_at_;     // by node, and at the end: is done before it
  std::vector<std::vector<size_t>> fetch_at_;      // by node: whose copy to the device starts before it
  std::vector<std::vector<size_t>> fetched_at_;    // by node: is done before it
  std::map<size_t, ValueId> started_, stored_;     // by activation: the copy under way, and what is on the host
};

// Runs of all candidates, copies of what is offloaded.
ir::Graph offload_named(const ir::Graph& graph, const Touches& touches, std::vector<Activation> candidates,
                        const HandedOver& names) {
  const Runs runs(graph, candidates);
  std::erase_if(candidates, [&](const Activation& each) { return !names.offloaded.contains(each.name); });
  return ActivationOffloader(graph, touches, runs, std::move(candidates), names.tier).run();
}

}  // namespace

bool OffloadedBlocks::has(std::string_view letter) const {
  return letters.empty() || std::ranges::find(letters, letter) != letters.end();
}

ir::Graph offload_activations(const ir::Graph& graph, const OffloadedBlocks& blocks) {
  const Touches touches(graph);
  std::vector<Activation> activations = find_between_passes(graph, touches, blocks.least_bytes);
  const Runs runs(graph, activations);
  std::erase_if(activations, [&](const Activation& each) {
    return !blocks.has(ir::scope_letter(graph.producer(each.value).scope)) || !runs.is_away(each);
  });
  return ActivationOffloader(graph, touches, runs, std::move(activations), blocks.tier).run();
}

HandedOver handed_over(const ir::Graph& forward, std::string_view prefix, const OffloadedBlocks& blocks) {
  const Touches touches(forward);
  HandedOver names{.candidates = find_outputs(forward, touches, prefix, blocks.least_bytes), .tier = blocks.tier};
  const std::vector<Activation> candidates = named_outputs(forward, touches, names.candidates);
  const Runs runs(forward, candidates);
  for (const Activation& each : candidates)
    if (blocks.has(ir::scope_letter(forward.producer(each.value).scope)) && !runs.ends_unstored(each.left))
      names.offloaded.insert(each.name);
  return names;
}

ir::Graph store_outputs(const ir::Graph& forward, const HandedOver& names) {
  const Touches touches(forward);
  return offload_named(forward, touches, named_outputs(forward, touches, names.candidates), names);
}

ir::Graph fetch_inputs(const ir::Graph& backward, const HandedOver& names) {
  const Touches touches(backward);
  return offload_named(backward, touches, named_inputs(backward, touches, names.candidates), names);
}

}  // namespace megacpp::schedule
