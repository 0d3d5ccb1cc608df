// SPDX-License-Identifier: Apache-2.0
#include "megacpp/partition/partition.h"

#include <algorithm>
#include <optional>

#include "megacpp/base/error.h"
#include "megacpp/ir/axis_sets.h"
#include "megacpp/ops/partition_rule.h"
#include "megacpp/partition/factor_axes.h"
#include "megacpp/partition/lower_reshard.h"
#include "megacpp/partition/replication_gate.h"
#include "megacpp/partition/stable_state.h"
#include "megacpp/partition/sum_ends.h"

namespace megacpp::partition {
namespace {

using ir::Axes;
using ir::NodeId;
using ir::Sharding;
using ir::ValueId;
using ops::Factors;
using ops::Linearity;

struct Version {
  Sharding sharding;
  ValueId local;
};

// What is known of a global value.
struct State {
  bool flexible = false;          // recomputed in every sharding that is requested
  Sharding preferred;             // its sharding, or what it would be if nobody requests another
  std::vector<Version> versions;  // the first is the value as it was made
};

// A node of the global program, and what its op says of it.
struct Visited {
  const ir::Node& node;
  const ops::OpDef& op;
  const ops::NodeView& view;
  const Factors& factors;
};

// An operand's sharding once a node's split is decided.
struct Wanted {
  std::vector<Sharding> operands;
  Axes partial;  // sums that pass through to every result
};

class Partitioner {
 public:
  Partitioner(const ir::Graph& graph, const ir::Mesh& mesh, const Placements& known, const Options& options)
      : global_(graph),
        mesh_(mesh),
        known_(known),
        options_(options),
        result_{ir::Graph(graph.name()), {}, {}, 0},
        builder_(result_.graph),
        states_(graph.values().size()),
        sum_ends_(find_sum_ends(graph)),
        replication_(mesh, options.max_replicated_bytes, options.degree_keys) {}

  Partitioned run() {
    const uint32_t nodes = static_cast<uint32_t>(global_.nodes().size());
    for (uint32_t n = 0; n < nodes; ++n) {
      if (n == options_.forward_nodes) end_forward();
      visit(NodeId{n});
    }
    for (const ir::Output& output : global_.outputs()) add_output(output);
    replication_.check();
    return std::move(result_);
  }

 private:
  // Gives a custom rule its view of one node.
  class Context : public ops::PartitionContext {
   public:
    Context(Partitioner& owner, const ir::Node& node, const ops::NodeView& view, const Sharding* requested)
        : owner_(owner), node_(node), view_(view), requested_(requested) {}
    const ops::NodeView& view() const override { return view_; }
    const ir::Mesh& mesh() const override { return owner_.mesh_; }
    const Sharding& sharding(size_t operand) const override { return owner_.state(node_.operands[operand]).preferred; }
    const Sharding* requested() const override { return requested_; }
    ValueId local(size_t operand, const Sharding& sharding) override {
      return owner_.local(node_.operands[operand], sharding, node_);
    }
    ops::Builder& builder() override { return owner_.builder_; }

   private:
    Partitioner& owner_;
    const ir::Node& node_;
    const ops::NodeView& view_;
    const Sharding* requested_;
  };

  State& state(ValueId value) { return states_[value.index]; }

  // ---- The sweep ----

  void visit(NodeId id) {
    const ir::Node node = global_.node(id);  // a copy: decompositions grow the graph
    if (node.op == ir::kInputOp) return visit_input(node);
    if (node.op == "reshard") return visit_reshard(node);
    const ops::OpDef& op = ops::op_def(node.op);
    const ops::Types operands = global_.operand_types(node), results = global_.result_types(node);
    const ops::NodeView view{operands, results, node.attrs};
    const Factors factors = op.factors(view);
    if (is_flexible(node, op, factors)) return defer(node, factors);
    if (try_rule(node, op, view, nullptr)) return;
    if (op.is_composite() && splits_replicated_factor(node, factors)) return visit_decomposed(node, op);
    emit({.node = node, .op = op, .view = view, .factors = factors}, split_by_operands(node, factors));
  }

  void visit_input(const ir::Node& node) {
    const ValueId value = node.results[0];
    const std::string spec = node.attrs.text("sharding", "");
    const std::string& name = node.attrs.text("name");
    State& own = state(value);
    own.preferred = Sharding::replicated(global_.type(value).shape.size());
    if (spec == kAutoSharding) {
      const auto at = known_.find(name);
      if (at == known_.end()) {
        own.flexible = true;
        return;
      }
      own.preferred = at->second.sharding;
    } else if (!spec.empty()) {
      own.preferred = ir::parse_sharding(spec, mesh_);
    }
    make_input(node, own.preferred);
  }

  // From now on the input is sharded so.
  void make_input(const ir::Node& node, const Sharding& sharding) {
    const ValueId value = node.results[0];
    const ir::TensorType& whole = global_.type(value);
    const std::string& name = node.attrs.text("name");
    builder_.set_scope(node.scope);
    const ValueId local = builder_.input(name, {whole.dtype, ir::local_shape(whole.shape, sharding, mesh_)}, node.role,
                                         sharding.is_replicated() ? "" : to_string(sharding, mesh_));
    result_.inputs[name] = {whole, sharding};
    settle(value, sharding, local);
  }

  // An explicit reshard is always made from the value itself, never from an earlier copy: a gather that the backward
  // pass repeats on purpose stays repeated.
  void visit_reshard(const ir::Node& node) {
    const ValueId operand = node.operands[0], result = node.results[0];
    builder_.set_scope(node.scope);
    const bool is_flexible = state(operand).flexible;
    // Of reshards in a row the last counts, and is made here: the way there may be shorter. Except where one pins a
    // value that could be made anywhere.
    const SumEnd& end = sum_end(result);
    const bool is_last = end.next != SumEnd::Next::reshard || (is_flexible && pins(node));
    const ir::Node& last = is_last ? node : global_.node(*end.reshard);
    const Version made = is_flexible ? materialise(operand, target(last, {}), node) : state(operand).versions[0];
    const Sharding to = target(last, made.sharding);
    const ValueId moved = from_version(operand, made, to, node);
    // What the backward pass reads of it stays: it is an activation, no longer what its collective needs.
    if (last.role == ir::Role::activation && moved != made.local)
      result_.graph.node(result_.graph.value(moved).producer).role = last.role;
    settle(result, to, moved);
  }

  static bool pins(const ir::Node& reshard) { return reshard.attrs.text("from") == reshard.attrs.text("to"); }

  // How an explicit reshard leaves a value: dimensions as requested, partial sums added up or, where it says so, as
  // they are.
  Sharding target(const ir::Node& reshard, const Sharding& from) const {
    Sharding to = ir::parse_sharding(reshard.attrs.text("to"), mesh_);
    if (!reshard.attrs.flag("partial")) return to;
    Axes used;
    for (const Axes& axes : to.dims) used.insert(used.end(), axes.begin(), axes.end());
    to.unreduced = ir::minus(from.unreduced, used);
    return to;
  }

  void visit_decomposed(const ir::Node& node, const ops::OpDef& op) {
    const uint32_t first = static_cast<uint32_t>(global_.nodes().size());
    ops::Builder builder(global_);
    builder.set_scope(node.scope);
    const std::vector<ValueId> results = op.decompose(builder, node.operands, node.attrs);
    states_.resize(global_.values().size());
    extend_sum_ends(sum_ends_, global_, {.first = first, .results = node.results, .made = results});
    for (uint32_t n = first; n < global_.nodes().size(); ++n) visit(NodeId{n});
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId made = results[r];
      if (state(made).flexible) materialise(made, state(made).preferred, node);
      state(node.results[r]) = state(made);
    }
  }

  void settle(ValueId value, const Sharding& sharding, ValueId local) {
    State& own = state(value);
    own.flexible = false;
    own.preferred = sharding;
    own.versions = {{sharding, local}};
  }

  // ---- Flexible values ----

  // A result factor that no operand has is free; elementwise work on flexible values is flexible too.
  bool is_flexible(const ir::Node& node, const ops::OpDef& op, const Factors& factors) {
    if (node.results.size() != 1) return false;
    std::vector<bool> in_operand(factors.factors.size(), false);
    for (const ops::DimFactors& dims : factors.operands)
      for (const auto& dim : dims)
        for (const int f : dim) in_operand[static_cast<size_t>(f)] = true;
    for (const auto& dim : factors.results[0])
      for (const int f : dim)
        if (!in_operand[static_cast<size_t>(f)] && is_free_factor(factors.factors[static_cast<size_t>(f)], op))
          return true;
    if (node.operands.empty()) return !op.is_collective;
    return op.fusion == ops::Fusion::elementwise &&
           std::all_of(node.operands.begin(), node.operands.end(), [this](ValueId v) { return state(v).flexible; });
  }

  // A factor that must be whole can still be split freely where the op has a rule for it (rows of scatter_add).
  static bool is_free_factor(const ops::Factor& factor, const ops::OpDef& op) {
    return factor.size > 1 && (factor.kind == ops::FactorKind::parallel || op.partition);
  }

  void defer(const ir::Node& node, const Factors& factors) {
    State& own = state(node.results[0]);
    own.flexible = true;
    own.preferred = to_sharding(split_by_operands(node, factors), factors.results[0]);
  }

  // The value in this sharding, or as near to it as the op can be split; recorded as a version.
  const Version& materialise(ValueId value, const Sharding& wanted, const ir::Node& reader) {
    const ir::Node node = global_.producer(value);
    const std::string scope = builder_.scope();
    if (node.op == ir::kInputOp) {
      make_input(node, wanted);
    } else {
      make_flexible(node, wanted);
    }
    builder_.set_scope(scope.empty() ? reader.scope : scope);
    return state(value).versions.back();
  }

  void make_flexible(const ir::Node& node, const Sharding& wanted) {
    const ops::OpDef& op = ops::op_def(node.op);
    const ops::Types operands = global_.operand_types(node), results = global_.result_types(node);
    const ops::NodeView view{operands, results, node.attrs};
    const Factors factors = op.factors(view);
    const State kept = state(node.results[0]);
    Sharding dims_only{.dims = wanted.dims};
    if (!try_rule(node, op, view, &dims_only)) {
      FactorAxes axes = to_factors(dims_only, factors.results[0], factors, mesh_);
      drop_replicated(axes, factors);
      extend_by_operands(axes, node, factors);
      emit({.node = node, .op = op, .view = view, .factors = factors}, axes);
    }
    State& own = state(node.results[0]);
    std::vector<Version> versions = kept.versions;
    versions.push_back(own.versions[0]);
    own.versions = std::move(versions);
    own.flexible = true;
    own.preferred = kept.preferred;
  }

  // ---- Deciding a node's split ----

  FactorAxes split_by_operands(const ir::Node& node, const Factors& factors) {
    FactorAxes axes(factors.factors.size());
    extend_by_operands(axes, node, factors);
    return axes;
  }

  // Operands in order of size, flexible ones last: what they say about factors, first come first served, as far as
  // every tensor of the node can be split so.
  void extend_by_operands(FactorAxes& axes, const ir::Node& node, const Factors& factors) {
    std::vector<size_t> order(node.operands.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const bool flexible_a = state(node.operands[a]).flexible, flexible_b = state(node.operands[b]).flexible;
      if (flexible_a != flexible_b) return flexible_b;
      return global_.type(node.operands[a]).bytes() > global_.type(node.operands[b]).bytes();
    });
    for (const size_t i : order) {
      FactorAxes own = to_factors(state(node.operands[i]).preferred, factors.operands[i], factors, mesh_);
      drop_replicated(own, factors);
      extend_split(axes, own);
    }
    make_expressible(axes, factors, mesh_);
  }

  bool splits_replicated_factor(const ir::Node& node, const Factors& factors) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (state(node.operands[i]).flexible) continue;
      const FactorAxes own = to_factors(state(node.operands[i]).preferred, factors.operands[i], factors, mesh_);
      for (size_t f = 0; f < own.size(); ++f)
        if (!own[f].empty() && factors.factors[f].kind == ops::FactorKind::replicated) return true;
    }
    return false;
  }

  // ---- Partial sums ----

  // How the operands must be sharded: split as decided; partial only where the op is linear, and where waiting does not
  // make the sum larger.
  Wanted wanted_operands(const Visited& visited, const FactorAxes& axes) {
    const auto& [node, op, view, factors] = visited;
    Wanted wanted;
    for (const ops::DimFactors& dims : factors.operands) wanted.operands.push_back(to_sharding(axes, dims));
    wanted.operands.resize(node.operands.size());
    const Linearity linearity = op.linear ? op.linear(view) : Linearity{};
    if (linearity.kind == Linearity::Kind::no) return wanted;
    const Axes used = used_axes(axes);
    const auto partial_of = [&, &operands = visited.node.operands](size_t i) {
      return ir::minus(state(operands[i]).preferred.unreduced, used);
    };
    if (linearity.kind == Linearity::Kind::each) {
      size_t best = SIZE_MAX;
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (linearity.covers(i) && !partial_of(i).empty() && !grows(view, i) &&
            (best == SIZE_MAX || view.operands[i].bytes() > view.operands[best].bytes()))
          best = i;
      if (best == SIZE_MAX) return wanted;
      wanted.partial = wanted.operands[best].unreduced = partial_of(best);
      return wanted;
    }
    const PartialSums sums = partial_sums(node, linearity, view, partial_of);
    wanted.partial = sums.shared;
    if (sums.shared != sums.all) {
      const Sharding result = to_sharding(axes, factors.results[0]);
      if (must_wait(node, linearity, wanted.operands, result, sums)) wanted.partial = sums.all;
    }
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (linearity.covers(i)) wanted.operands[i].unreduced = wanted.partial;
    return wanted;
  }

  // Axes over which operands of a sum are partial: all of them, or any of them.
  struct PartialSums {
    Axes shared, all;
  };

  template <typename PartialOf>
  PartialSums partial_sums(const ir::Node& node, const Linearity& linearity, const ops::NodeView& view,
                           const PartialOf& partial_of) {
    PartialSums sums;
    bool first = true;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (!linearity.covers(i) || adapts(node.operands[i])) continue;
      const Axes own = partial_of(i);
      if (!own.empty() && grows(view, i)) return {};
      sums.shared = first ? own : ir::minus(sums.shared, ir::minus(sums.shared, own));
      sums.all = ir::merged(sums.all, own);
      first = false;
    }
    return sums;
  }

  // Operands that are partial over different axes are added up now, down to the axes they share; or each becomes
  // partial over all of them, which is free, and their sum is added up once, later. Whichever sends less. At equal
  // bytes it waits where a linear op reads it, with which more may come; else it is whole rather than in two forms.
  bool must_wait(const ir::Node& node, const Linearity& linearity, const std::vector<Sharding>& operands,
                 const Sharding& result, const PartialSums& sums) {
    const auto bytes = [&](const Axes& partial) {
      double sum = bytes_after_sum(node.results[0], {.dims = result.dims, .unreduced = partial});
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (linearity.covers(i) && !adapts(node.operands[i]))
          sum += static_cast<double>(bytes_to(node.operands[i], {.dims = operands[i].dims, .unreduced = partial}));
      return sum;
    };
    const double now = bytes(sums.shared), later = bytes(sums.all);
    return now == later ? sum_end(node.results[0]).next == SumEnd::Next::linear : later < now;
  }

  // What a chip sends to have the value so.
  int64_t bytes_to(ValueId value, const Sharding& to) {
    if (state(value).flexible) return 0;
    const Version from = cheapest_version(value, to);
    const ir::TensorType& whole = global_.type(value);
    return sent_bytes(plan_reshard(from.sharding, to, whole.shape, mesh_), from.sharding, whole, mesh_);
  }

  // What it sends until the value is sharded as the one reshard that it reaches wants it, or what is left of it is
  // whole.
  double bytes_after_sum(ValueId value, const Sharding& from) const {
    Sharding to{.dims = from.dims};
    const SumEnd& end = sum_end(value);
    if (end.reshard) to = target(global_.node(*end.reshard), from);
    const ir::TensorType& whole = global_.type(value);
    return end.left * static_cast<double>(sent_bytes(plan_reshard(from, to, whole.shape, mesh_), from, whole, mesh_));
  }

  const SumEnd& sum_end(ValueId value) const { return sum_ends_[value.index]; }

  // Zeros are partial sums of anything, and an input of free sharding becomes what is added to it.
  bool adapts(ValueId value) {
    const ir::Node& node = global_.producer(value);
    if (node.op == "constant") return node.attrs.real("value") == 0.0;
    return node.op == ir::kInputOp && state(value).flexible;
  }

  static bool grows(const ops::NodeView& view, size_t operand) {
    return view.results[0].elements() > view.operands[operand].elements();
  }

  // ---- Emitting ----

  void emit(const Visited& visited, const FactorAxes& axes) {
    const Wanted wanted = wanted_operands(visited, axes);
    const ir::Node& node = visited.node;
    builder_.set_scope(node.scope);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      ValueId operand = local(node.operands[i], wanted.operands[i], node);
      operands.push_back(without_summed_padding(operand, i, visited, axes));
    }
    ir::Attrs attrs = node.attrs;
    std::vector<Sharding> shardings;
    for (const ops::DimFactors& dims : visited.factors.results) {
      Sharding sharding = to_sharding(axes, dims);
      sharding.unreduced = ir::merged(wanted.partial, summed_axes(axes, dims));
      shardings.push_back(std::move(sharding));
    }
    if (attrs.has("shape")) attrs.set("shape", ir::local_shape(visited.view.results[0].shape, shardings[0], mesh_));
    append(node, std::move(operands), std::move(attrs), shardings);
  }

  void append(const ir::Node& node, std::vector<ValueId> operands, ir::Attrs attrs,
              const std::vector<Sharding>& shardings) {
    builder_.set_scope(node.scope);
    builder_.set_role(node.role);
    const std::vector<ValueId> locals = builder_.node(node.op, std::move(operands), std::move(attrs));
    builder_.set_role(ir::Role::temporary);
    for (size_t r = 0; r < locals.size(); ++r) {
      const ir::Shape expected = ir::local_shape(global_.type(node.results[r]).shape, shardings[r], mesh_);
      MEGACPP_CHECK(builder_.shape(locals[r]) == expected)
          << node.op << " @" << node.scope << " split as " << to_string(shardings[r], mesh_) << " gives "
          << to_string(builder_.type(locals[r])) << ", not " << ir::to_string(expected);
      settle(node.results[r], shardings[r], locals[r]);
    }
  }

  // Padding must not enter sums: it is zeroed along factors that some result no longer has.
  ValueId without_summed_padding(ValueId local, size_t operand, const Visited& visited, const FactorAxes& axes) {
    if (operand >= visited.factors.operands.size()) return local;
    const ops::DimFactors& dims = visited.factors.operands[operand];
    for (size_t d = 0; d < dims.size(); ++d) {
      Axes own;
      bool summed = false;
      for (const int f : dims[d]) {
        const Axes& split = axes[static_cast<size_t>(f)];
        own.insert(own.end(), split.begin(), split.end());
        summed = summed || (!split.empty() && is_summed(f, visited.factors));
      }
      if (!summed) continue;
      const int64_t size = visited.view.operands[operand].shape[d];
      local = ops::fill_padding(builder_, local,
                                {.dim = static_cast<int64_t>(d), .size = size, .axes = own, .mesh = mesh_}, 0.0);
    }
    return local;
  }

  bool try_rule(const ir::Node& node, const ops::OpDef& op, const ops::NodeView& view, const Sharding* requested) {
    if (!op.partition) return false;
    builder_.set_scope(node.scope);
    Context context(*this, node, view, requested);
    const std::vector<ops::PartitionedResult> results = op.partition(context);
    if (results.empty()) return false;
    for (size_t r = 0; r < results.size(); ++r) settle(node.results[r], results[r].sharding, results[r].value);
    return true;
  }

  // ---- Getting values ----

  // The chip's part of a value in the requested sharding: a version that is there, one made for it, or a reshard.
  ValueId local(ValueId value, const Sharding& sharding, const ir::Node& reader) {
    if (const Version* known = find_version(value, sharding)) return known->local;
    if (state(value).flexible) {
      const Version made = materialise(value, sharding, reader);
      if (made.sharding == sharding) return made.local;
      return remember(value, sharding, from_version(value, made, sharding, reader));
    }
    return remember(value, sharding, from_version(value, cheapest_version(value, sharding), sharding, reader));
  }

  const Version* find_version(ValueId value, const Sharding& sharding) {
    for (const Version& version : state(value).versions)
      if (version.sharding == sharding) return &version;
    return nullptr;
  }

  // One from which the way is free, else the value as it was made.
  Version cheapest_version(ValueId value, const Sharding& to) {
    const ir::Shape& whole = global_.type(value).shape;
    for (const Version& version : state(value).versions)
      if (is_free(plan_reshard(version.sharding, to, whole, mesh_))) return version;
    return state(value).versions[0];
  }

  ValueId remember(ValueId value, const Sharding& sharding, ValueId local) {
    state(value).versions.push_back({sharding, local});
    return local;
  }

  ValueId from_version(ValueId value, const Version& version, const Sharding& to, const ir::Node& reader) {
    const ir::Shape& whole = global_.type(value).shape;
    const std::vector<ReshardStep> steps = plan_reshard(version.sharding, to, whole, mesh_);
    if (steps.empty()) return version.local;
    const ir::TensorType& type = global_.type(value);
    if (reader.op != "reshard" && replication_.refuses(type, version.sharding, to))
      replication_.add({.tensor = describe(value),
                        .reader = reader.op + " @" + reader.scope,
                        .whole = type,
                        .from = version.sharding,
                        .to = to});
    return lower_reshard(builder_,
                         {.local = version.local,
                          .from = version.sharding,
                          .whole = whole,
                          .steps = steps,
                          .cause = cause(value, version.sharding, to, reader)},
                         mesh_);
  }

  std::string describe(ValueId value) const {
    while (global_.producer(value).op == "reshard") value = global_.producer(value).operands[0];
    const ir::Node& node = global_.producer(value);
    const std::string name = node.op == ir::kInputOp ? node.attrs.text("name") : node.op;
    return name + (node.scope.empty() ? "" : " @" + node.scope);
  }

  std::string cause(ValueId value, const Sharding& from, const Sharding& to, const ir::Node& reader) const {
    const std::string by = reader.op == "reshard" ? "annotation" : reader.op + " @" + reader.scope;
    return by + ": " + describe(value) + " [" + to_string(from, mesh_) + "] -> [" + to_string(to, mesh_) + "]";
  }

  // ---- Outputs ----

  // What the forward pass puts out is complete before the backward pass begins.
  void end_forward() {
    for (const ir::Output& output : global_.outputs())
      if (output.donated.empty() && global_.value(output.value).producer.index < options_.forward_nodes)
        output_value(output);
    result_.forward_nodes = result_.graph.nodes().size();
  }

  ValueId output_value(const ir::Output& output) {
    const ir::Node reader{.op = "output", .operands = {}, .results = {}, .attrs = {}, .scope = "output " + output.name};
    builder_.set_scope(global_.producer(output.value).scope);
    return local(output.value, output_sharding(output), reader);
  }

  // State goes back to where it came from; other outputs stay sharded as they were made, sums added up.
  Sharding output_sharding(const ir::Output& output) {
    const auto input = result_.inputs.find(output.donated);
    if (!output.donated.empty() && input != result_.inputs.end()) return input->second.sharding;
    return {.dims = state(output.value).preferred.dims};
  }

  void add_output(const ir::Output& output) {
    const ValueId value = output_value(output);
    result_.outputs[output.name] = {global_.type(output.value), output_sharding(output)};
    result_.graph.add_output({.name = output.name, .value = value, .donated = output.donated});
  }

  ir::Graph global_;
  const ir::Mesh& mesh_;
  const Placements& known_;
  const Options& options_;
  Partitioned result_;
  ops::Builder builder_;
  std::vector<State> states_;     // by global value
  std::vector<SumEnd> sum_ends_;  // by global value
  ReplicationGate replication_;
};

// On one chip the program stays as it is and every tensor whole.
Partitioned whole_program(const ir::Graph& graph) {
  Partitioned result{graph, {}, {}, 0};
  const auto place = [&graph](ValueId value) {
    return Placement{graph.type(value), Sharding::replicated(graph.type(value).shape.size())};
  };
  for (const NodeId id : graph.inputs())
    result.inputs[graph.node(id).attrs.text("name")] = place(graph.node(id).results[0]);
  for (const ir::Output& output : graph.outputs()) result.outputs[output.name] = place(output.value);
  return result;
}

}  // namespace

Partitioned partition(const ir::Graph& graph, const ir::Mesh& mesh, const Placements& known, const Options& options) {
  Partitioned result = mesh.chips() == 1 ? whole_program(graph) : Partitioner(graph, mesh, known, options).run();
  check_stable_state(result, known, mesh);
  return result;
}

}  // namespace megacpp::partition
