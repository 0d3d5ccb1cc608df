// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/split_loss.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;
using Dims = std::vector<int64_t>;

constexpr size_t kAddend = 2;  // of a dot

// A node of the loss, of which every part runs its own.
struct LossNode {
  uint32_t node;
  std::optional<size_t> whole = {};  // the operand that is not cut; of a sum its addend
  bool is_sum = false;               // over rows
};

struct Loss {
  std::vector<LossNode> nodes;  // in the graph's order
  int64_t dim = 0;              // that is cut, of everything with rows
  int64_t parts = 0;
};

class LossFinder {
 public:
  LossFinder(const ir::Graph& graph, int64_t full_rate_rows)
      : graph_(graph), users_(graph.users()), readers_(count_readers(graph)), full_rate_rows_(full_rate_rows) {}

  // The loss around that cross_entropy, where it may be cut.
  std::optional<Loss> find(uint32_t entropy) const {
    const ValueId logits = graph_.nodes()[entropy].operands[0];
    Loss loss;
    choose_parts(graph_.type(logits).shape, loss);
    if (loss.parts < 2 || !collect(entropy, loss.nodes)) return std::nullopt;
    std::ranges::sort(loss.nodes, {}, &LossNode::node);
    return is_closed(loss.nodes) ? std::optional(std::move(loss)) : std::nullopt;
  }

 private:
  // Of logits [rows.., v].
  void choose_parts(const ir::Shape& logits, Loss& loss) const {
    const auto end = logits.end() - 1;
    const auto cut = std::find_if(logits.begin(), end, [](int64_t size) { return size > 1; });
    if (cut == end) return;
    loss.dim = cut - logits.begin();
    const int64_t rows = std::accumulate(logits.begin(), end, int64_t{1}, std::multiplies<>());
    for (int64_t parts = 2; parts <= *cut; ++parts)
      if (*cut % parts == 0 && rows / parts >= full_rate_rows_) loss.parts = parts;
  }

  bool collect(uint32_t entropy, std::vector<LossNode>& nodes) const {
    const ir::Node& forward = graph_.nodes()[entropy];
    const ValueId logits = forward.operands[0];
    const uint32_t head = graph_.value(logits).producer.index;
    const std::vector<ir::NodeId>& users = users_[logits.index];
    if (users.size() != 2 || readers_[logits.index] != 2 || users[0].index != entropy) return false;
    const ir::Node& backward = graph_.node(users[1]);
    const bool is_gradient = backward.op == "cross_entropy_grad" && backward.operands[0] == logits &&
                             backward.operands[1] == forward.operands[1] && backward.operands[2] == forward.results[1];
    const int64_t row_dims = graph_.type(logits).rank() - 1;
    if (!is_gradient || !is_row_product(graph_.nodes()[head], row_dims)) return false;
    nodes = {{.node = head, .whole = 1}, {.node = entropy}, {.node = users[1].index}};
    return collect_readers(backward.results[0], row_dims, nodes);
  }

  // Of the logits' gradient: products all, perhaps of its conversion.
  bool collect_readers(ValueId gradient, int64_t row_dims, std::vector<LossNode>& nodes) const {
    const std::vector<ir::NodeId>& users = users_[gradient.index];
    if (users.size() != readers_[gradient.index]) return false;  // it is an output
    if (users.size() == 1 && graph_.node(users[0]).op == "convert") {
      nodes.push_back({.node = users[0].index});
      return collect_readers(graph_.node(users[0]).results[0], row_dims, nodes);
    }
    for (const ir::NodeId user : users) {
      const ir::Node& node = graph_.node(user);
      if (is_row_product(node, row_dims) && node.operands[0] == gradient) {
        nodes.push_back({.node = user.index, .whole = 1});
      } else if (is_row_sum(node, row_dims)) {
        nodes.push_back({.node = user.index, .whole = kAddend, .is_sum = true});
      } else {
        return false;
      }
    }
    return true;
  }

  // x [rows.., k] times a matrix that all rows share.
  bool is_row_product(const ir::Node& node, int64_t row_dims) const {
    return node.op == "dot" && graph_.type(node.operands[0]).rank() == row_dims + 1 &&
           node.attrs.list("lhs_batch").empty() && node.attrs.list("lhs_contract") == Dims{row_dims};
  }

  // x [rows.., m] and y [rows.., n], summed over rows in f32.
  bool is_row_sum(const ir::Node& node, int64_t row_dims) const {
    Dims rows(static_cast<size_t>(row_dims));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    return node.op == "dot" && node.attrs.list("lhs_batch").empty() && node.attrs.list("lhs_contract") == rows &&
           node.attrs.list("rhs_contract") == rows && graph_.type(node.results[0]).dtype == ir::DType::f32;
  }

  // Whether a part needs nothing that is there only once all parts are: from others, or as a whole from its own nodes.
  bool is_closed(const std::vector<LossNode>& nodes) const {
    std::vector<bool> is_own(graph_.nodes().size(), false), is_summed(is_own), waits(is_own);
    for (const LossNode& one : nodes) {
      is_own[one.node] = true;
      is_summed[one.node] = one.is_sum;
    }
    for (uint32_t n = nodes.front().node; n < waits.size(); ++n)
      for (const ValueId operand : graph_.nodes()[n].operands) {
        const uint32_t producer = graph_.value(operand).producer.index;
        waits[n] = waits[n] || (!is_own[n] && (is_own[producer] || waits[producer]));
      }
    for (const LossNode& one : nodes) {
      const std::vector<ValueId>& operands = graph_.nodes()[one.node].operands;
      for (size_t i = 0; i < operands.size(); ++i) {
        const uint32_t producer = graph_.value(operands[i]).producer.index;
        if (waits[producer] || is_summed[producer] || (i == one.whole && is_own[producer])) return false;
      }
    }
    return true;
  }

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> users_;  // by value
  std::vector<size_t> readers_;                 // by value
  int64_t full_rate_rows_;
};

class LossSplitter {
 public:
  LossSplitter(const ir::Graph& graph, const Loss& loss)
      : graph_(graph),
        loss_(loss),
        is_own_(graph.nodes().size(), false),
        rewriter_(graph),
        builder_(rewriter_.graph()) {
    for (const LossNode& one : loss.nodes) is_own_[one.node] = true;
  }

  // The parts stand where the last node of the loss stood; what reads them and stood before follows them.
  ir::Graph run() {
    const uint32_t last = loss_.nodes.back().node;
    std::vector<uint32_t> waiting;
    for (uint32_t n = 0; n < last; ++n) {
      if (is_own_[n]) continue;
      const std::vector<ValueId>& operands = graph_.nodes()[n].operands;
      const bool is_ready = std::ranges::all_of(operands, [&](ValueId operand) { return rewriter_.has(operand); });
      if (is_ready) {
        rewriter_.copy(graph_.nodes()[n]);
      } else {
        waiting.push_back(n);
      }
    }
    for (int64_t p = 0; p < loss_.parts; ++p) append_part(p);
    for (const LossNode& one : loss_.nodes) join_results(one);
    for (const uint32_t n : waiting) rewriter_.copy(graph_.nodes()[n]);
    for (uint32_t n = last + 1; n < graph_.nodes().size(); ++n) rewriter_.copy(graph_.nodes()[n]);
    return rewriter_.finish();
  }

 private:
  void append_part(int64_t p) {
    parts_.clear();
    for (const LossNode& one : loss_.nodes) {
      const ir::Node& node = graph_.nodes()[one.node];
      std::vector<ValueId> operands;
      for (size_t i = 0; i < node.operands.size(); ++i)
        operands.push_back(i == one.whole ? rewriter_.map(node.operands[i]) : part_of(node.operands[i], p, node));
      if (one.is_sum && p > 0) {
        operands.resize(kAddend);
        operands.push_back(made_[node.results[0].index].back());
      }
      builder_.set_scope(node.scope);
      builder_.set_role(node.role);
      const std::vector<ValueId> results = builder_.node(node.op, std::move(operands), node.attrs);
      for (size_t r = 0; r < results.size(); ++r) {
        parts_[node.results[r].index] = results[r];
        made_[node.results[r].index].push_back(results[r]);
      }
    }
  }

  // Of a value with rows: what this part's nodes have made, or a slice for those that read it.
  ValueId part_of(ValueId value, int64_t p, const ir::Node& reader) {
    const auto [at, is_new] = parts_.try_emplace(value.index);
    if (is_new) {
      const int64_t size = graph_.type(value).dim(loss_.dim) / loss_.parts;
      builder_.set_scope(reader.scope);
      builder_.set_role(ir::Role::temporary);
      at->second = builder_.slice(rewriter_.map(value), loss_.dim, p * size, size);
    }
    return at->second;
  }

  void join_results(const LossNode& one) {
    const ir::Node& node = graph_.nodes()[one.node];
    for (const ValueId result : node.results) {
      if (one.is_sum) {
        rewriter_.set(result, made_[result.index].back());
      } else if (is_read_by_others(result)) {
        builder_.set_scope(node.scope);
        builder_.set_role(node.role);
        rewriter_.set(result, builder_.concatenate(made_[result.index], loss_.dim));
      }
    }
  }

  bool is_read_by_others(ValueId value) const {
    const auto reads = [&](const ir::Node& node) { return std::ranges::count(node.operands, value) > 0; };
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n)
      if (!is_own_[n] && reads(graph_.nodes()[n])) return true;
    return std::ranges::any_of(graph_.outputs(), [&](const ir::Output& output) { return output.value == value; });
  }

  const ir::Graph& graph_;
  const Loss& loss_;
  std::vector<bool> is_own_;  // by node
  Rewriter rewriter_;
  ops::Builder builder_;
  std::map<uint32_t, ValueId> parts_;              // by value: its rows in the part that is written
  std::map<uint32_t, std::vector<ValueId>> made_;  // by value of the loss: what each part has left of it
};

std::vector<uint32_t> losses_of(const ir::Graph& graph) {
  std::vector<uint32_t> nodes;
  for (uint32_t n = 0; n < graph.nodes().size(); ++n)
    if (graph.nodes()[n].op == "cross_entropy") nodes.push_back(n);
  return nodes;
}

}  // namespace

ir::Graph split_loss(const ir::Graph& graph, int64_t full_rate_rows) {
  ir::Graph result = graph;
  // From the last: the losses before it stay the first ones of the graph.
  for (size_t i = losses_of(graph).size(); i-- > 0;)
    if (const auto loss = LossFinder(result, full_rate_rows).find(losses_of(result)[i]))
      result = LossSplitter(result, *loss).run();
  return result;
}

}  // namespace megacpp::schedule
