// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using Order = std::vector<uint32_t>;

// Which bytes a value is, and how many of their readers have not run yet; outputs are never freed. A view is the bytes
// of its operand. Inputs, and what takes over the buffer of one, are there in every order: counting these would put
// gradients, which all are, off to the end.
class Liveness {
 public:
  explicit Liveness(const ir::Graph& graph)
      : graph_(graph), readers_(graph.values().size()), left_(graph.values().size()) {
    find_bytes();
    for (uint32_t n = 0; n < graph.nodes().size(); ++n)
      for_each_read(n, [&](ir::ValueId bytes) { readers_[bytes.index].push_back(n); });
    for (size_t v = 0; v < left_.size(); ++v) left_[v] = readers_[v].size();
    for (const ir::Output& output : graph.outputs()) ++left_[bytes_of_[output.value.index].index];
    find_counted();
  }

  /// Of bytes, named by the value that was made there first: the nodes that read them under any name, ascending.
  const std::vector<uint32_t>& readers(ir::ValueId bytes) const { return readers_[bytes.index]; }
  size_t left(ir::ValueId bytes) const { return left_[bytes.index]; }

  int64_t allocated(uint32_t node) const {
    int64_t bytes = 0;
    for (const ir::ValueId result : graph_.nodes()[node].results)
      if (is_counted_[result.index]) bytes += graph_.type(result).bytes();
    return bytes;
  }

  // Bytes that die when the node runs now: results that nothing reads among them.
  int64_t freed(uint32_t node) const {
    int64_t total = 0;
    for (const ir::ValueId result : graph_.nodes()[node].results)
      if (is_counted_[result.index] && left_[result.index] == 0) total += graph_.type(result).bytes();
    for_each_read(node, [&](ir::ValueId bytes) {
      if (is_counted_[bytes.index] && left_[bytes.index] == 1) total += graph_.type(bytes).bytes();
    });
    return total;
  }

  template <typename Body>
  void run(uint32_t node, const Body& after_read) {
    for_each_read(node, [&](ir::ValueId bytes) {
      --left_[bytes.index];
      after_read(bytes);
    });
  }

 private:
  void find_bytes() {
    for (uint32_t v = 0; v < graph_.values().size(); ++v) bytes_of_.push_back({v});
    for (const ir::Node& node : graph_.nodes()) {
      if (!is_view(node)) continue;
      for (size_t r = 0; r < node.results.size(); ++r)
        bytes_of_[node.results[r].index] = bytes_of_[node.operands[r].index];
    }
  }

  void find_counted() {
    is_counted_.resize(graph_.values().size());
    for (const ir::Node& node : graph_.nodes())
      for (const ir::ValueId result : node.results)
        is_counted_[result.index] = node.op != ir::kInputOp && !is_view(node);
    for (const ir::Output& output : graph_.outputs())
      if (!output.donated.empty()) is_counted_[bytes_of_[output.value.index].index] = false;
    for (size_t n = graph_.nodes().size(); n-- > 0;) add_up_in_state(graph_.nodes()[n]);
  }

  // A sum that ops add to one after the other, the last of them replacing a state, is there from the first on.
  void add_up_in_state(const ir::Node& node) {
    const int addend = ops::op_def(node.op).addend;
    if (addend < 0 || node.operands.size() <= static_cast<size_t>(addend) || is_counted_[node.results[0].index]) return;
    const ir::ValueId sum = node.operands[static_cast<size_t>(addend)];
    const bool is_sum = graph_.value(sum).result == 0 && ops::op_def(graph_.producer(sum).op).addend >= 0;
    if (is_sum && left_[sum.index] == 1) is_counted_[sum.index] = false;
  }

  static bool is_view(const ir::Node& node) { return ops::op_def(node.op).is_view; }

  // All that a node reads, each once.
  template <typename Body>
  void for_each_read(uint32_t n, const Body& body) const {
    std::vector<ir::ValueId> seen;
    for (const ir::ValueId operand : graph_.nodes()[n].operands) {
      const ir::ValueId bytes = bytes_of_[operand.index];
      if (std::find(seen.begin(), seen.end(), bytes) != seen.end()) continue;
      seen.push_back(bytes);
      body(bytes);
    }
  }

  const ir::Graph& graph_;
  std::vector<ir::ValueId> bytes_of_;           // by value
  std::vector<std::vector<uint32_t>> readers_;  // by bytes
  std::vector<size_t> left_;                    // by bytes: readers and outputs
  std::vector<bool> is_counted_;                // by bytes
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
  const std::vector<std::vector<ir::NodeId>> users = graph.users();
  std::vector<size_t> waiting(graph.nodes().size(), 0);  // distinct operands not yet computed
  for (const std::vector<ir::NodeId>& of_value : users)
    for (const ir::NodeId user : of_value) ++waiting[user.index];
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
    liveness.run(node, [&](ir::ValueId bytes) {
      if (liveness.left(bytes) != 1) return;
      for (const uint32_t reader : liveness.readers(bytes)) {  // the last now frees them: cheaper than before
        if (done[reader] || waiting[reader] != 0) continue;
        ready.erase({key[reader], reader});
        insert(reader);
      }
    });
    for (const ir::ValueId result : graph.nodes()[node].results)
      for (const ir::NodeId user : users[result.index])
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
