// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/partition.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/axis_sets.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/partition/factor_axes.h"
#include "megacpp/program/partition/local_values.h"
#include "megacpp/program/partition/lower_reshard.h"
#include "megacpp/program/partition/partial_sums.h"
#include "megacpp/program/partition/replication_gate.h"

namespace megacpp::partition {
namespace {

using ir::Axes;
using ir::NodeId;
using ir::Sharding;
using ir::ValueId;
using ops::Factors;

class Partitioner {
 public:
  Partitioner(const ir::Graph& graph, const ir::Mesh& mesh, const Placements& known, const Options& options)
      : global_(graph),
        mesh_(mesh),
        known_(known),
        options_(options),
        result_{ir::Graph(graph.name()), {}, {}, 0},
        builder_(result_.graph),
        values_(global_, mesh),
        sums_(global_, mesh, values_),
        replication_(mesh, options.max_replicated_bytes, options.degree_keys) {
    result_.graph.reserve(graph.nodes().size(), graph.values().size());
  }

  Partitioned run() {
    const uint32_t nodes = static_cast<uint32_t>(global_.nodes().size());
    for (uint32_t n = 0; n < nodes; ++n) {
      if (n == options_.forward_nodes) end_forward();
      visit(NodeId{n});
    }
    if (nodes == options_.forward_nodes) end_forward();  // a stage without anything to train has no backward pass
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
    const Sharding& sharding(size_t operand) const override {
      return owner_.values_[node_.operands[operand]].preferred;
    }
    const Sharding* requested() const override { return requested_; }
    ValueId local(size_t operand, const Sharding& sharding) override {
      return owner_.local(node_.operands[operand], sharding, node_);
    }
    ValueId gathered(size_t operand, const Sharding& sharding) override {
      return owner_.local(node_.operands[operand], sharding, node_, Gather::weighed);
    }
    ops::Builder& builder() override { return owner_.builder_; }

   private:
    Partitioner& owner_;
    const ir::Node& node_;
    const ops::NodeView& view_;
    const Sharding* requested_;
  };

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
    ValueState& own = values_[value];
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
    values_.settle(value, sharding, local);
  }

  // An explicit reshard is always made from the value itself, never from an earlier copy: a gather that the backward
  // pass repeats on purpose stays repeated.
  void visit_reshard(const ir::Node& node) {
    const ValueId operand = node.operands[0], result = node.results[0];
    builder_.set_scope(node.scope);
    const bool is_flexible = values_[operand].flexible;
    // Of reshards in a row the last counts, and is made here: the way there may be shorter. Except where one pins a
    // value that could be made anywhere.
    const SumEnd& end = sums_.end(result);
    const bool is_last = end.next != SumEnd::Next::reshard || (is_flexible && pins(node));
    const ir::Node& last = is_last ? node : global_.node(*end.reshard);
    const Version made =
        is_flexible ? materialise(operand, reshard_target(last, {}, mesh_), node) : values_[operand].versions[0];
    const Sharding to = reshard_target(last, made.sharding, mesh_);
    const ValueId moved = from_version(operand, made, to, node);
    // What the backward pass reads of it stays: it is an activation, no longer what its collective needs.
    if (last.role == ir::Role::activation && moved != made.local)
      result_.graph.node(result_.graph.value(moved).producer).role = last.role;
    values_.settle(result, to, moved);
  }

  static bool pins(const ir::Node& reshard) { return reshard.attrs.text("from") == reshard.attrs.text("to"); }

  void visit_decomposed(const ir::Node& node, const ops::OpDef& op) {
    const uint32_t first = static_cast<uint32_t>(global_.nodes().size());
    ops::Builder builder(global_);
    builder.set_scope(node.scope);
    const std::vector<ValueId> results = op.decompose(builder, node.operands, node.attrs);
    values_.extend();
    sums_.extend({.first = first, .results = node.results, .made = results});
    for (uint32_t n = first; n < global_.nodes().size(); ++n) visit(NodeId{n});
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId made = results[r];
      if (values_[made].flexible) materialise(made, values_[made].preferred, node);
      values_[node.results[r]] = values_[made];
    }
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
           std::all_of(node.operands.begin(), node.operands.end(), [this](ValueId v) { return values_[v].flexible; });
  }

  // A factor that must be whole can still be split freely where the op has a rule for it (rows of scatter_add).
  static bool is_free_factor(const ops::Factor& factor, const ops::OpDef& op) {
    return factor.size > 1 && (factor.kind == ops::FactorKind::parallel || op.partition);
  }

  void defer(const ir::Node& node, const Factors& factors) {
    ValueState& own = values_[node.results[0]];
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
    return values_[value].versions.back();
  }

  void make_flexible(const ir::Node& node, const Sharding& wanted) {
    const ops::OpDef& op = ops::op_def(node.op);
    const ops::Types operands = global_.operand_types(node), results = global_.result_types(node);
    const ops::NodeView view{operands, results, node.attrs};
    const Factors factors = op.factors(view);
    const ValueState kept = values_[node.results[0]];
    Sharding dims_only{.dims = wanted.dims};
    if (!try_rule(node, op, view, &dims_only)) {
      FactorAxes axes = to_factors(dims_only, factors.results[0], factors, mesh_);
      drop_replicated(axes, factors);
      extend_by_operands(axes, node, factors);
      emit({.node = node, .op = op, .view = view, .factors = factors}, axes);
    }
    ValueState& own = values_[node.results[0]];
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
      const bool flexible_a = values_[node.operands[a]].flexible, flexible_b = values_[node.operands[b]].flexible;
      if (flexible_a != flexible_b) return flexible_b;
      return global_.type(node.operands[a]).bytes() > global_.type(node.operands[b]).bytes();
    });
    for (const size_t i : order) {
      FactorAxes own = to_factors(values_[node.operands[i]].preferred, factors.operands[i], factors, mesh_);
      drop_replicated(own, factors);
      extend_split(axes, own);
    }
    make_expressible(axes, factors, mesh_);
  }

  bool splits_replicated_factor(const ir::Node& node, const Factors& factors) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (values_[node.operands[i]].flexible) continue;
      const FactorAxes own = to_factors(values_[node.operands[i]].preferred, factors.operands[i], factors, mesh_);
      for (size_t f = 0; f < own.size(); ++f)
        if (!own[f].empty() && factors.factors[f].kind == ops::FactorKind::replicated) return true;
    }
    return false;
  }

  // ---- Emitting ----

  void emit(const VisitedNode& visited, const FactorAxes& axes) {
    const WantedOperands wanted = sums_.wanted_operands(visited, axes);
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
      values_.settle(node.results[r], shardings[r], locals[r]);
    }
  }

  // Padding must not enter sums: it is zeroed along factors that some result no longer has.
  ValueId without_summed_padding(ValueId local, size_t operand, const VisitedNode& visited, const FactorAxes& axes) {
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
    for (size_t r = 0; r < results.size(); ++r) values_.settle(node.results[r], results[r].sharding, results[r].value);
    return true;
  }

  // ---- Getting values ----

  // Whether a gather is what a reader's split happens to need, or was weighed by its rule against doing without.
  enum class Gather : uint8_t { implicit, weighed };

  // The chip's part of a value in the requested sharding: a version that is there, one made for it, or a reshard.
  ValueId local(ValueId value, const Sharding& sharding, const ir::Node& reader, Gather gather = Gather::implicit) {
    if (const Version* known = values_.find(value, sharding)) return known->local;
    const Version from =
        values_[value].flexible ? materialise(value, sharding, reader) : values_.cheapest(value, sharding);
    if (from.sharding == sharding) return from.local;
    const ir::TensorType& type = global_.type(value);
    if (gather == Gather::implicit && replication_.refuses(type, from.sharding, sharding))
      replication_.add({.tensor = describe(value),
                        .reader = reader.op + " @" + reader.scope,
                        .whole = type,
                        .from = from.sharding,
                        .to = sharding});
    return values_.remember(value, sharding, from_version(value, from, sharding, reader));
  }

  ValueId from_version(ValueId value, const Version& version, const Sharding& to, const ir::Node& reader) {
    const ir::Shape& whole = global_.type(value).shape;
    const std::vector<ReshardStep> steps = plan_reshard(version.sharding, to, whole, mesh_);
    if (steps.empty()) return version.local;
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
    std::string by = reader.op + " @" + reader.scope;
    if (reader.op == "reshard")
      by = reader.attrs.has("cause") ? "annotation for " + reader.attrs.text("cause") : "annotation";
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
    return {.dims = values_[output.value].preferred.dims};
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
  LocalValues values_;
  PartialSums sums_;
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
  return mesh.chips() == 1 ? whole_program(graph) : Partitioner(graph, mesh, known, options).run();
}

}  // namespace megacpp::partition
