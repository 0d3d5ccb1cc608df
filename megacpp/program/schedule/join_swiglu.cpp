// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/join_swiglu.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// gate * logistic(gate)
struct Silu {
  ir::ValueId gate, logistic, result;
};

// h = silu(gate) * up of two products with the same rows.
struct Swiglu {
  ir::ValueId up, h;
  Silu silu;
  uint32_t last;  // the later of the two products
};

// From dh, a product, to dgate and dup; h where it is made for the backward pass alone.
struct SwigluGrad {
  ir::ValueId dh, up, dgate, dup;
  Silu silu;
  std::optional<ir::ValueId> h = {};
  std::vector<ir::ValueId> between = {};  // of dh and dgate, read by nothing else
};

class SwigluJoiner {
 public:
  SwigluJoiner(const ir::Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        users_(graph.users()),
        readers_(count_readers(graph)),
        is_gone_(graph.nodes().size(), false),
        made_at_(graph.nodes().size()),
        rewriter_(graph) {
    std::iota(made_at_.begin(), made_at_.end(), 0U);
  }

  ir::Graph run() {
    const uint32_t nodes = static_cast<uint32_t>(graph_.nodes().size());
    // Forward first: what it makes, a gradient need not make again.
    for (uint32_t n = 0; n < nodes; ++n)
      if (graph_.nodes()[n].op == "logistic") join_forward(graph_.nodes()[n]);
    for (uint32_t n = 0; n < nodes; ++n)
      if (is_product(n, true)) join_grad(n);
    drop_unread();
    hold_back();
    rewrite();
    return rewriter_.finish();
  }

 private:
  uint32_t node_of(ir::ValueId value) const { return graph_.value(value).producer.index; }
  void remove(ir::ValueId value) { is_gone_[node_of(value)] = true; }

  // One of experts' rows that is still there and adds nothing.
  bool is_product(uint32_t n, bool transposed) const {
    const ir::Node& node = graph_.nodes()[n];
    return !is_gone_[n] && node.op == "ragged_dot" && node.operands.size() == 3 &&
           node.attrs.flag("transpose_w") == transposed;
  }

  // The other factor, if the node is a product of the value and another one.
  std::optional<ir::ValueId> factor_beside(const ir::Node& node, ir::ValueId value) const {
    if (node.op != "mul" || node.operands[0] == node.operands[1]) return std::nullopt;
    if (node.operands[0] == value) return node.operands[1];
    return node.operands[1] == value ? std::optional(node.operands[0]) : std::nullopt;
  }

  // The first value that the op makes of the two, in this order unless it is commutative.
  std::optional<ir::ValueId> made_of(std::string_view op, ir::ValueId a, ir::ValueId b) const {
    for (const ir::NodeId user : users_[a.index]) {
      const ir::Node& node = graph_.node(user);
      if (node.op != op) continue;
      if ((node.operands[0] == a && node.operands[1] == b) ||
          (op != "sub" && node.operands[0] == b && node.operands[1] == a))
        return node.results[0];
    }
    return std::nullopt;
  }

  std::optional<Silu> silu_of(ir::ValueId value) const {
    const ir::Node& node = graph_.producer(value);
    if (node.op != "mul") return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Node& logistic = graph_.producer(node.operands[i]);
      if (logistic.op == "logistic" && logistic.operands[0] == node.operands[1 - i])
        return Silu{logistic.operands[0], node.operands[i], value};
    }
    return std::nullopt;
  }

  bool target_runs(std::string_view op, const std::vector<ir::ValueId>& values, const ir::Attrs& attrs,
                   const ops::Types& results) const {
    ops::Types operands;
    for (const ir::ValueId value : values) operands.push_back(graph_.type(value));
    return static_cast<bool>(target_.runs(op, {operands, results, attrs}));
  }

  // ---- Forward ----

  void join_forward(const ir::Node& logistic) {
    const ir::ValueId gate = logistic.operands[0];
    const std::optional<ir::ValueId> product = made_of("mul", gate, logistic.results[0]);
    if (!product || !is_product(node_of(gate), false)) return;
    for (const ir::NodeId user : users_[product->index]) {
      const std::optional<ir::ValueId> up = factor_beside(graph_.node(user), *product);
      if (!up || !have_same_rows(gate, *up)) continue;
      const Swiglu swiglu{*up,
                          graph_.node(user).results[0],
                          {gate, logistic.results[0], *product},
                          std::max(node_of(gate), node_of(*up))};
      if (!may_join(swiglu)) continue;
      for (const ir::ValueId value : {gate, *up, swiglu.h}) remove(value);
      made_at_[node_of(gate)] = made_at_[node_of(*up)] = swiglu.last;
      forward_.push_back(swiglu);
      return;
    }
  }

  bool have_same_rows(ir::ValueId gate, ir::ValueId up) const {
    if (gate == up || !is_product(node_of(up), false) || graph_.type(gate) != graph_.type(up)) return false;
    const ir::Node &of_gate = graph_.producer(gate), &of_up = graph_.producer(up);
    return of_gate.operands[0] == of_up.operands[0] && of_gate.operands[2] == of_up.operands[2];
  }

  // Nothing may read what is made later than it was, but for silu(gate), which then waits as well.
  bool may_join(const Swiglu& swiglu) const {
    const uint32_t logistic = node_of(swiglu.silu.logistic), silu = node_of(swiglu.silu.result);
    for (const ir::ValueId value : {swiglu.silu.gate, swiglu.up, swiglu.silu.logistic, swiglu.silu.result})
      for (const ir::NodeId user : users_[value.index])
        if (user.index < swiglu.last && user.index != logistic && user.index != silu) return false;
    const ir::TensorType& h = graph_.type(swiglu.h);
    return target_runs("ragged_swiglu", operands_of(swiglu), {{"keep_products", int64_t{1}}}, {h, h, h});
  }

  std::vector<ir::ValueId> operands_of(const Swiglu& swiglu) const {
    const ir::Node &of_gate = graph_.producer(swiglu.silu.gate), &of_up = graph_.producer(swiglu.up);
    return {of_gate.operands[0], of_gate.operands[1], of_up.operands[1], of_up.operands[2]};
  }

  // ---- Backward ----

  void join_grad(uint32_t n) {
    const ir::ValueId dh = graph_.nodes()[n].results[0];
    if (readers_[dh.index] != 2 || users_[dh.index].size() != 2) return;
    for (size_t i = 0; i < 2; ++i) {
      std::optional<SwigluGrad> grad = grad_from(dh, users_[dh.index][i], users_[dh.index][1 - i]);
      if (!grad || !may_join(*grad)) continue;
      for (const ir::ValueId value : {grad->dh, grad->dgate, grad->dup}) remove(value);
      for (const ir::ValueId value : grad->between) remove(value);
      if (grad->h) remove(*grad->h);
      grads_.push_back(std::move(*grad));
      return;
    }
  }

  // The gradients' own rules: dup = dh silu, dsilu = dh up, dgate = dsilu s + (dsilu gate s - dsilu gate s s).
  std::optional<SwigluGrad> grad_from(ir::ValueId dh, ir::NodeId to_up, ir::NodeId to_silu) const {
    const std::optional<ir::ValueId> silu_value = factor_beside(graph_.node(to_up), dh);
    const std::optional<ir::ValueId> up = factor_beside(graph_.node(to_silu), dh);
    const std::optional<Silu> silu = silu_value ? silu_of(*silu_value) : std::nullopt;
    if (!silu || !up) return std::nullopt;
    SwigluGrad grad{.dh = dh, .up = *up, .dgate = {}, .dup = graph_.node(to_up).results[0], .silu = *silu};
    // Values between dh and dgate, each with how often it is read on the way.
    const auto step = [&](std::string_view op, std::optional<ir::ValueId> a, std::optional<ir::ValueId> b,
                          size_t reads) -> std::optional<ir::ValueId> {
      const std::optional<ir::ValueId> made = a && b ? made_of(op, *a, *b) : std::nullopt;
      if (!made || readers_[made->index] != reads) return std::nullopt;
      grad.between.push_back(*made);
      return made;
    };
    const std::optional<ir::ValueId> s = silu->logistic, dsilu = step("mul", dh, up, 2);
    const std::optional<ir::ValueId> direct = step("mul", dsilu, s, 1), by_slope = step("mul", dsilu, silu->gate, 1);
    const std::optional<ir::ValueId> slope = step("mul", by_slope, s, 2), squared = step("mul", slope, s, 1);
    const std::optional<ir::ValueId> rest = step("sub", slope, squared, 1);
    const std::optional<ir::ValueId> dgate = direct && rest ? made_of("add", *direct, *rest) : std::nullopt;
    if (!dgate) return std::nullopt;
    grad.dgate = *dgate;
    grad.h = remade(*silu, *up, node_of(dh));
    return grad;
  }

  // silu(gate) * up, if everything that reads it stands behind the product.
  std::optional<ir::ValueId> remade(const Silu& silu, ir::ValueId up, uint32_t product) const {
    const std::optional<ir::ValueId> h = made_of("mul", silu.result, up);
    if (!h || is_gone_[node_of(*h)]) return std::nullopt;
    const bool is_for_later =
        std::ranges::all_of(users_[h->index], [&](const ir::NodeId user) { return user.index > product; });
    return is_for_later ? h : std::nullopt;
  }

  bool may_join(const SwigluGrad& grad) const {
    const uint32_t product = node_of(grad.dh);
    if (made_at_[node_of(grad.silu.gate)] >= product || made_at_[node_of(grad.up)] >= product) return false;
    const ir::TensorType& dh = graph_.type(grad.dh);
    if (graph_.type(grad.silu.gate) != dh || graph_.type(grad.up) != dh) return false;
    return target_runs("ragged_swiglu_grad", operands_of(grad), attrs_of(grad), types_of(grad));
  }

  std::vector<ir::ValueId> operands_of(const SwigluGrad& grad) const {
    std::vector<ir::ValueId> operands = graph_.producer(grad.dh).operands;
    operands.insert(operands.end(), {grad.silu.gate, grad.up});
    return operands;
  }
  ir::Attrs attrs_of(const SwigluGrad& grad) const { return {{"make_h", int64_t{grad.h ? 1 : 0}}}; }
  ops::Types types_of(const SwigluGrad& grad) const { return ops::Types(grad.h ? 3 : 2, graph_.type(grad.dh)); }

  // ---- What becomes of the graph ----

  bool is_unread(ir::ValueId value) const {
    const std::vector<ir::NodeId>& users = users_[value.index];
    return readers_[value.index] == users.size() &&
           std::ranges::all_of(users, [&](const ir::NodeId user) { return is_gone_[user.index]; });
  }

  // silu(gate) and the logistic in it, where only what is gone read them.
  void drop_unread() {
    const auto drop = [this](const Silu& silu) {
      if (is_unread(silu.result)) remove(silu.result);
      if (is_unread(silu.logistic)) remove(silu.logistic);
    };
    for (const Swiglu& swiglu : forward_) drop(swiglu.silu);
    for (const SwigluGrad& grad : grads_) drop(grad.silu);
  }

  // What is left of them and stood before the last product is made behind it.
  void hold_back() {
    for (const Swiglu& swiglu : forward_)
      for (const ir::ValueId value : {swiglu.silu.logistic, swiglu.silu.result}) {
        if (node_of(value) > swiglu.last || is_gone_[node_of(value)]) continue;
        remove(value);
        waiting_.push_back(value);
      }
  }

  void rewrite() {
    std::vector<const Swiglu*> forward_at(is_gone_.size(), nullptr);
    std::vector<const SwigluGrad*> grad_at(is_gone_.size(), nullptr);
    for (const Swiglu& swiglu : forward_) forward_at[swiglu.last] = &swiglu;
    for (const SwigluGrad& grad : grads_) grad_at[node_of(grad.dh)] = &grad;
    for (size_t n = 0; n < is_gone_.size(); ++n) {
      if (forward_at[n] != nullptr)
        emit(*forward_at[n]);
      else if (grad_at[n] != nullptr)
        emit(*grad_at[n]);
      else if (!is_gone_[n])
        rewriter_.copy(graph_.nodes()[n]);
    }
  }

  // Whether something reads gate or up that is not made here.
  bool is_kept(ir::ValueId product) const {
    return !is_unread(product) || std::ranges::any_of(grads_, [&](const SwigluGrad& grad) {
      return grad.silu.gate == product || grad.up == product;
    });
  }

  ir::Node with_mapped_operands(const ir::Node& like, std::string_view op, std::vector<ir::ValueId> operands) {
    ir::Node node = like;
    node.op = op;
    for (ir::ValueId& operand : operands) operand = rewriter_.map(operand);
    node.operands = std::move(operands);
    return node;
  }

  void emit(const Swiglu& swiglu) {
    const std::vector<ir::ValueId> waiting = waiting_of(swiglu);
    const bool keeps = !waiting.empty() || is_kept(swiglu.silu.gate) || is_kept(swiglu.up);
    const ir::Node& like = graph_.producer(keeps ? swiglu.silu.gate : swiglu.h);
    ir::Node node = with_mapped_operands(like, "ragged_swiglu", operands_of(swiglu));
    node.attrs = {{"keep_products", int64_t{keeps ? 1 : 0}}};
    std::vector<ir::ValueId> old = {swiglu.h};
    if (keeps) old.insert(old.end(), {swiglu.silu.gate, swiglu.up});
    rewriter_.replace(old, std::move(node), ops::Types(old.size(), graph_.type(swiglu.h)));
    for (const ir::ValueId value : waiting) rewriter_.copy(graph_.producer(value));
  }

  void emit(const SwigluGrad& grad) {
    ir::Node node = with_mapped_operands(graph_.producer(grad.dh), "ragged_swiglu_grad", operands_of(grad));
    node.attrs = attrs_of(grad);
    std::vector<ir::ValueId> old = {grad.dgate, grad.dup};
    if (grad.h) old.push_back(*grad.h);
    rewriter_.replace(old, std::move(node), types_of(grad));
  }

  // silu(gate) and its logistic, where they wait for it.
  std::vector<ir::ValueId> waiting_of(const Swiglu& swiglu) const {
    std::vector<ir::ValueId> values;
    for (const ir::ValueId value : {swiglu.silu.logistic, swiglu.silu.result})
      if (std::ranges::find(waiting_, value) != waiting_.end()) values.push_back(value);
    return values;
  }

  const ir::Graph& graph_;
  const Target& target_;
  const std::vector<std::vector<ir::NodeId>> users_;  // by value
  const std::vector<size_t> readers_;                 // by value: users and outputs
  std::vector<bool> is_gone_;                         // by node: replaced, or read by nothing any more
  std::vector<uint32_t> made_at_;                     // by node: where its results are made, itself or a joined one
  std::vector<Swiglu> forward_;
  std::vector<SwigluGrad> grads_;
  std::vector<ir::ValueId> waiting_;  // made behind the product that they wait for
  Rewriter rewriter_;
};

}  // namespace

ir::Graph join_swiglu(const ir::Graph& graph, const Target& target) { return SwigluJoiner(graph, target).run(); }

}  // namespace megacpp::schedule
