// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using Order = std::vector<uint32_t>;

// Counts how many readers of each value have not run yet; outputs are never freed. Inputs, and outputs that take over
// the buffer of one, are there in every order: counting these would put gradients, which all are, off to the end.
class Liveness {
 public:
  explicit Liveness(const ir::Graph& graph)
      : graph_(graph), users_(graph.users()), left_(graph.values().size()), is_counted_(graph.values().size()) {
    for (size_t v = 0; v < left_.size(); ++v) left_[v] = users_[v].size();
    for (const ir::Node& node : graph.nodes())
      for (const ir::ValueId result : node.results) is_counted_[result.index] = node.op != ir::kInputOp;
    for (const ir::Output& output : graph.outputs()) {
      ++left_[output.value.index];
      if (!output.donated.empty()) is_counted_[output.value.index] = false;
    }
  }

  bool is_counted(ir::ValueId value) const { return is_counted_[value.index]; }
  const std::vector<ir::NodeId>& users(ir::ValueId value) const { return users_[value.index]; }
  size_t left(ir::ValueId value) const { return left_[value.index]; }

  int64_t allocated(uint32_t node) const {
    int64_t bytes = 0;
    for (const ir::ValueId result : graph_.nodes()[node].results)
      if (is_counted(result)) bytes += graph_.type(result).bytes();
    return bytes;
  }

  // Bytes that die when the node runs now.
  int64_t freed(uint32_t node) const {
    int64_t bytes = 0;
    for_each_operand(node, [&](ir::ValueId operand) {
      if (is_counted(operand) && left_[operand.index] == 1) bytes += graph_.type(operand).bytes();
    });
    return bytes;
  }

  template <typename Body>
  void run(uint32_t node, const Body& after_read) {
    for_each_operand(node, [&](ir::ValueId operand) {
      --left_[operand.index];
      after_read(operand);
    });
  }

 private:
  // Each distinct operand once.
  template <typename Body>
  void for_each_operand(uint32_t node, const Body& body) const {
    const auto& operands = graph_.nodes()[node].operands;
    for (size_t i = 0; i < operands.size(); ++i)
      if (std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(i), operands[i]) ==
          operands.begin() + static_cast<std::ptrdiff_t>(i))
        body(operands[i]);
  }

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;
  std::vector<size_t> left_;
  std::vector<bool> is_counted_;
};

int64_t peak_of(const ir::Graph& graph, const Order& order) {
  Liveness liveness(graph);
  int64_t alive = 0, peak = 0;
  for (const uint32_t node : order) {
    alive += liveness.allocated(node);
    peak = std::max(peak, alive);
    alive -= liveness.freed(node);
    liveness.run(node, [](ir::ValueId) {});
  }
  return peak;
}

Order source_order(const ir::Graph& graph) {
  Order order(graph.nodes().size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

Order greedy_order(const ir::Graph& graph) {
  Liveness liveness(graph);
  std::vector<size_t> waiting(graph.nodes().size(), 0);  // distinct operands not yet computed
  for (const ir::Node& node : graph.nodes())
    for (const ir::ValueId result : node.results)
      for (const ir::NodeId user : liveness.users(result)) ++waiting[user.index];
  std::set<std::pair<int64_t, uint32_t>> ready;  // (net bytes, node): cheapest first, then as written
  std::vector<int64_t> key(graph.nodes().size(), 0);
  const auto insert = [&](uint32_t node) {
    key[node] = liveness.allocated(node) - liveness.freed(node);
    ready.emplace(key[node], node);
  };
  for (uint32_t n = 0; n < waiting.size(); ++n)
    if (waiting[n] == 0) insert(n);
  std::vector<bool> done(graph.nodes().size(), false);
  Order order;
  while (!ready.empty()) {
    const uint32_t node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    done[node] = true;
    liveness.run(node, [&](ir::ValueId operand) {
      if (liveness.left(operand) != 1) return;
      for (const ir::NodeId user :
           liveness.users(operand)) {  // the last reader now frees the value: cheaper than before
        if (done[user.index] || waiting[user.index] != 0) continue;
        ready.erase({key[user.index], user.index});
        insert(user.index);
      }
    });
    for (const ir::ValueId result : graph.nodes()[node].results)
      for (const ir::NodeId user : liveness.users(result))
        if (--waiting[user.index] == 0) insert(user.index);
  }
  MEGACPP_CHECK(order.size() == graph.nodes().size()) << "the graph has a cycle";
  return order;
}

}  // namespace

int64_t simulated_peak(const ir::Graph& graph) { return peak_of(graph, source_order(graph)); }

ir::Graph order_for_low_peak(const ir::Graph& graph) {
  const Order greedy = greedy_order(graph);
  if (peak_of(graph, greedy) >= simulated_peak(graph)) return graph;
  Rewriter rewriter(graph);
  for (const uint32_t node : greedy) rewriter.copy(graph.nodes()[node]);
  return rewriter.finish();
}

}  // namespace megacpp::schedule
