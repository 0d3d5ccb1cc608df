// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/offload_activations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "megacpp/ops/collective_start.h"
#include "megacpp/ops/host_copy.h"
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;

/// A value and its time on the host. A program with both passes has all of it, one of a pass alone its part.
struct Activation {
  ValueId value;
  std::optional<uint32_t> made = {};    // by this node; nothing: it comes in the host's memory
  uint32_t left = 0;                    // the last node that touches it before
  std::optional<uint32_t> wanted = {};  // the first that reads it behind; nothing: nobody does here
  std::string name = {};                // of the output it leaves as, or of the input it comes as, on the host
};

bool is_reshape(const ir::Node& node) { return node.op == "reshape"; }

/// A node that makes or reads a value, and the one until which it does: a collective reads until it is done.
struct Touch {
  uint32_t node, until;
};

/// Who touches each value, in itself or under other shapes.
class Touches {
 public:
  explicit Touches(const ir::Graph& graph) : graph_(graph), is_kept_(graph.values().size(), false) {
    for (uint32_t v = 0; v < graph.values().size(); ++v) roots_.push_back(root_of_producer(ValueId{v}));
    for (uint32_t n = 0; n < graph.nodes().size(); ++n) until_.push_back(n);
    for (uint32_t n = 0; n < graph.nodes().size(); ++n)
      if (const ir::Node& node = graph.nodes()[n]; node.op == ops::kDoneOp)
        until_[graph.value(node.operands[0]).producer.index] = n;
    by_root_.resize(roots_.size());
    for (uint32_t n = 0; n < graph.nodes().size(); ++n) add(n);
  }

  ValueId root(ValueId value) const { return roots_[value.index]; }
  /// In the order of nodes, the one that makes it first; reshapes are none.
  const std::vector<Touch>& of(ValueId root) const { return by_root_[root.index]; }
  /// The node from which on nobody touches it.
  uint32_t end_of(ValueId root) const { return std::ranges::max(of(root), {}, &Touch::until).until; }
  /// Whether the backward pass reads it, as autodiff has it.
  bool is_kept(ValueId root) const { return is_kept_[root.index]; }

 private:
  // Operands stand before their readers, so that their roots are known.
  ValueId root_of_producer(ValueId value) const {
    const ir::Node& node = graph_.producer(value);
    return is_reshape(node) ? roots_[node.operands[0].index] : value;
  }

  void add(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    for (const ValueId result : node.results)
      if (node.role == ir::Role::activation) is_kept_[root(result).index] = true;
    if (is_reshape(node)) return;
    for (const std::vector<ValueId>* values : {&node.results, &node.operands})
      for (const ValueId value : *values) {
        std::vector<Touch>& touched = by_root_[root(value).index];
        if (touched.empty() || touched.back().node != n) touched.push_back({n, until_[n]});
      }
  }

  const ir::Graph& graph_;
  std::vector<ValueId> roots_;               // by value: what it shows
  std::vector<uint32_t> until_;              // by node: where what it starts is done, or itself
  std::vector<std::vector<Touch>> by_root_;  // by value
  std::vector<bool> is_kept_;                // by value
};

/// What a node is made of; constants count for nothing.
enum class MadeOf : uint8_t { nothing, weights, others };

std::vector<MadeOf> sources_of_nodes(const ir::Graph& graph) {
  std::vector<MadeOf> made_of(graph.nodes().size(), MadeOf::nothing);
  for (size_t n = 0; n < made_of.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    const bool is_weight = node.role == ir::Role::weight || node.role == ir::Role::weight_copy;
    if (node.op == ir::kInputOp) made_of[n] = is_weight ? MadeOf::weights : MadeOf::others;
    for (const ValueId operand : node.operands)
      made_of[n] = std::max(made_of[n], made_of[graph.value(operand).producer.index]);
  }
  return made_of;
}

/// Which values of a program may be offloaded, whichever blocks are chosen.
class Finder {
 public:
  Finder(const ir::Graph& graph, int64_t least_bytes)
      : graph_(graph),
        least_bytes_(least_bytes),
        touches_(graph),
        made_of_(sources_of_nodes(graph)),
        outputs_(graph.values().size(), 0) {
    for (const ir::Output& output : graph.outputs()) ++outputs_[touches_.root(output.value).index];
  }

  const Touches& touches() const { return touches_; }

  /// With the longest time that nobody touches them.
  std::vector<Activation> between_passes() const {
    std::vector<Activation> found;
    for (uint32_t v = 0; v < graph_.values().size(); ++v)
      if (const ValueId value{v}; may_leave(value) && outputs_[v] == 0 && touches_.is_kept(value))
        if (const std::vector<Touch>& touched = touches_.of(value); touched.size() > 1)
          found.push_back(with_longest_gap(value, touched));
    return found;
  }

  /// Whether this output leaves the device whole: nothing else of the program's is in the same bytes.
  bool may_leave_as(const ir::Output& output) const {
    return output.donated.empty() && may_leave(output.value) && outputs_[output.value.index] == 1;
  }

 private:
  // What a collective is still bringing is nobody's to copy: what it hands on when it is done is.
  bool may_leave(ValueId value) const {
    const ir::NodeId maker = graph_.value(value).producer;
    const ir::Node& node = graph_.node(maker);
    return node.op != ir::kInputOp && node.op != ops::kStartOp && touches_.root(value) == value &&
           !ir::scope_letter(node.scope).empty() && graph_.type(value).bytes() >= least_bytes_ &&
           made_of_[maker.index] != MadeOf::weights;
  }

  static Activation with_longest_gap(ValueId value, const std::vector<Touch>& touched) {
    Activation found{.value = value, .made = touched[0].node, .left = touched[0].until, .wanted = touched[1].node};
    uint32_t left = 0;
    for (size_t i = 0; i + 1 < touched.size(); ++i) {
      left = std::max(left, touched[i].until);
      const uint32_t next = touched[i + 1].node;
      if (next > left && next - left > *found.wanted - found.left) found.left = left, found.wanted = next;
    }
    return found;
  }

  const ir::Graph& graph_;
  const int64_t least_bytes_;
  const Touches touches_;
  const std::vector<MadeOf> made_of_;  // by node
  std::vector<size_t> outputs_;        // by value: that it, or a shape of it, leaves as
};

/// Where copies stand, by the runs of what could be away, chosen or not.
class Runs {
 public:
  Runs(const ir::Graph& graph, const std::vector<Activation>& candidates) {
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

  /// The node before which a store is done: the second run behind the last reader; nothing: the program ends before.
  std::optional<uint32_t> store_done(uint32_t left) const {
    const size_t run = run_of(left) + 2;
    return run < starts_.size() ? std::optional(starts_[run]) : std::nullopt;
  }
  /// The node before which a fetch starts; nothing: before all.
  std::optional<uint32_t> fetch_start(uint32_t wanted) const {
    const size_t run = run_of(wanted);
    return run > 0 ? std::optional(starts_[run - 1]) : std::nullopt;
  }
  bool is_away(const Activation& each) const {
    const std::optional<uint32_t> stored = store_done(each.left), fetched = fetch_start(*each.wanted);
    return stored && fetched && *stored < *fetched;
  }

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

  std::vector<uint32_t> starts_;  // ascending
};

/// Puts the copies of these activations into a program.
class ActivationOffloader {
 public:
  ActivationOffloader(const ir::Graph& graph, const Touches& touches, const Runs& runs,
                      std::vector<Activation> activations)
      : graph_(graph), touches_(touches), activations_(std::move(activations)), rewriter_(graph) {
    find_views();
    place_copies(runs);
  }

  ir::Graph run() {
    for (const ir::NodeId id : graph_.inputs()) append_input(graph_.node(id));  // what is fetched early is there
    for (const size_t a : fetch_at_[0]) start_fetch(a);
    for (uint32_t n = 0; n < count(); ++n) {
      if (graph_.nodes()[n].op == ir::kInputOp || is_lazy_[n]) continue;
      // Stores that are due come first: what they free is what the next fetches fill.
      for (const size_t a : stored_at_[n]) finish_store(a);
      for (const size_t a : fetch_at_[n + 1]) start_fetch(a);
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
    std::set<ValueId> away;
    for (const Activation& each : activations_) away.insert(each.value);
    for (uint32_t n = 0; n < count(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (!is_reshape(node) || !away.contains(touches_.root(node.results[0]))) continue;
      is_lazy_[n] = true;
      views_[touches_.root(node.results[0])].push_back(node.results[0]);
    }
  }

  void place_copies(const Runs& runs) {
    store_at_.resize(count());
    stored_at_.resize(count() + 1);
    fetch_at_.resize(count() + 1);
    fetched_at_.resize(count());
    for (size_t a = 0; a < activations_.size(); ++a) {
      const Activation& each = activations_[a];
      if (!each.made) continue;
      store_at_[each.left].push_back(a);
      stored_at_[runs.store_done(each.left).value_or(count())].push_back(a);
    }
    for (const size_t a : in_order_of_readers()) {
      const uint32_t wanted = *activations_[a].wanted;
      const std::optional<uint32_t> start = runs.fetch_start(wanted);
      fetch_at_[start ? *start + 1 : 0].push_back(a);
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
    const bool is_away =
        std::ranges::any_of(activations_, [&](const Activation& each) { return each.value == node.results[0]; });
    if (!is_away) return rewriter_.copy(node);
    ir::Node held = node;
    held.attrs.set(std::string(ops::kMemoryAttr), std::string(ops::kToHost));
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
    started_[a] =
        append_copy(a, ops::kCopyStartOp, rewriter_.map(activations_[a].value), {{"to", std::string(ops::kToHost)}});
  }

  void finish_store(size_t a) { stored_[a] = append_copy(a, ops::kCopyDoneOp, started_.at(a)); }

  void start_fetch(size_t a) {
    const Activation& each = activations_[a];
    const ValueId held = each.made ? stored_.at(a) : rewriter_.map(each.value);
    started_[a] = append_copy(a, ops::kCopyStartOp, held, {{"to", std::string(ops::kToDevice)}});
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
  const std::vector<Activation> activations_;
  Rewriter rewriter_;
  std::vector<bool> is_lazy_;                      // by node: a shape of what is away
  std::map<ValueId, std::vector<ValueId>> views_;  // by what is away
  std::vector<std::vector<size_t>> store_at_;      // by node: activations whose copy to the host starts behind it
  std::vector<std::vector<size_t>> stored_at_;     // by node, and at the end: is done before it
  std::vector<std::vector<size_t>> fetch_at_;      // whose copy to the device starts before all; by node: before it
  std::vector<std::vector<size_t>> fetched_at_;    // by node: is done before it
  std::map<size_t, ValueId> started_, stored_;     // by activation: the copy under way, and what is on the host
};

// Outputs of these names, with their part of the time on the host.
std::vector<Activation> named_outputs(const ir::Graph& forward, const Touches& touches,
                                      const std::set<std::string>& names) {
  std::vector<Activation> found;
  for (const ir::Output& output : forward.outputs())
    if (names.contains(output.name))
      found.push_back({.value = output.value,
                       .made = touches.of(output.value).front().node,
                       .left = touches.end_of(output.value),
                       .name = output.name});
  return found;
}

std::vector<Activation> named_inputs(const ir::Graph& backward, const Touches& touches,
                                     const std::set<std::string>& names) {
  std::vector<Activation> found;
  for (const ir::NodeId id : backward.inputs()) {
    const ir::Node& node = backward.node(id);
    Activation each{.value = node.results[0], .name = node.attrs.text("name")};
    if (!names.contains(each.name)) continue;
    if (const std::vector<Touch>& touched = touches.of(each.value); touched.size() > 1) each.wanted = touched[1].node;
    found.push_back(std::move(each));
  }
  return found;
}

// Runs of all candidates, copies of what is offloaded.
ir::Graph offload_named(const ir::Graph& graph, const Touches& touches, std::vector<Activation> candidates,
                        const std::set<std::string>& offloaded) {
  const Runs runs(graph, candidates);
  std::erase_if(candidates, [&](const Activation& each) { return !offloaded.contains(each.name); });
  return ActivationOffloader(graph, touches, runs, std::move(candidates)).run();
}

}  // namespace

bool OffloadedBlocks::has(std::string_view letter) const {
  return letters.empty() || std::ranges::find(letters, letter) != letters.end();
}

ir::Graph offload_activations(const ir::Graph& graph, const OffloadedBlocks& blocks) {
  const Finder finder(graph, blocks.least_bytes);
  std::vector<Activation> activations = finder.between_passes();
  const Runs runs(graph, activations);
  std::erase_if(activations, [&](const Activation& each) {
    return !blocks.has(ir::scope_letter(graph.producer(each.value).scope)) || !runs.is_away(each);
  });
  return ActivationOffloader(graph, finder.touches(), runs, std::move(activations)).run();
}

HandedOver handed_over(const ir::Graph& forward, std::string_view prefix, const OffloadedBlocks& blocks) {
  const Finder finder(forward, blocks.least_bytes);
  HandedOver names;
  for (const ir::Output& output : forward.outputs())
    if (output.name.starts_with(prefix) && finder.may_leave_as(output)) names.candidates.insert(output.name);
  const std::vector<Activation> candidates = named_outputs(forward, finder.touches(), names.candidates);
  const Runs runs(forward, candidates);
  for (const Activation& each : candidates)
    if (blocks.has(ir::scope_letter(forward.producer(each.value).scope)) && runs.store_done(each.left))
      names.offloaded.insert(each.name);
  return names;
}

ir::Graph store_outputs(const ir::Graph& forward, const HandedOver& names) {
  const Touches touches(forward);
  return offload_named(forward, touches, named_outputs(forward, touches, names.candidates), names.offloaded);
}

ir::Graph fetch_inputs(const ir::Graph& backward, const HandedOver& names) {
  const Touches touches(backward);
  return offload_named(backward, touches, named_inputs(backward, touches, names.candidates), names.offloaded);
}

}  // namespace megacpp::schedule
