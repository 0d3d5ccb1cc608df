// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fuse.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tile_program.h"
#include "megacpp/program/schedule/rewrite.h"
#include "megacpp/program/schedule/tile_builder.h"

namespace megacpp::schedule {
namespace {

using ir::NodeId;
using ir::Shape;
using ir::ValueId;
using ops::Fusion;
using ops::TileOutput;

// A tensor and how iteration dimensions index it: one operand of a tile program.
using Load = std::pair<uint32_t, std::vector<int64_t>>;

struct Cluster {
  Shape shape;                    // iteration shape
  std::vector<uint32_t> members;  // node indices, ascending
  std::set<Load> loads;           // what it reads from outside; after a merge perhaps from inside too
  int64_t reduced_dims = 0;       // trailing dimensions that its reductions fold; 0: no reduction yet
  bool open = true;
};

// Where a value's elements come from once broadcasts are looked through.
struct Source {
  std::optional<double> constant;
  ValueId root;
  std::vector<int64_t> dims;  // root dimension i is iteration dimension dims[i]
};

// clusters: of two ops and more. singles: every op by itself, and what is broadcast to kernels.
enum class Mode : uint8_t { clusters, singles };

// The number of trailing dimensions a reduce folds, or 0 when it folds others.
int64_t trailing_reduction(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "reduce") return 0;
  const auto& dims = node.attrs.list("dims");
  const int64_t rank = graph.type(node.operands[0]).rank();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != rank - static_cast<int64_t>(dims.size() - i)) return 0;
  return static_cast<int64_t>(dims.size());
}

class Fuser {
 public:
  Fuser(const ir::Graph& graph, Mode mode)
      : graph_(graph),
        mode_(mode),
        users_(graph.users()),
        cluster_of_(graph.nodes().size(), -1),
        is_output_(graph.values().size()) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value.index] = true;
  }

  ir::Graph run() {
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) assign(n);
    return rebuild();
  }

 private:
  static Fusion kind(const ir::Node& node) { return ops::op_def(node.op).fusion; }

  int64_t trailing_reduction(const ir::Node& node) const { return schedule::trailing_reduction(graph_, node); }
  bool is_fusible(const ir::Node& node) const { return schedule::is_fusible(graph_, node); }

  // Registers are f32 and unrounded: a number cut to an integer or a truth value must not be read on inside the
  // cluster.
  bool cuts_to_integer(const ir::Node& node) const {
    if (node.op != "convert") return false;
    const ir::DType from = graph_.type(node.operands[0]).dtype, to = graph_.type(node.results[0]).dtype;
    return from != to && (to == ir::DType::pred || (to == ir::DType::i32 && ir::is_float(from)));
  }

  Source resolve(ValueId value) const {
    Source source{.constant = std::nullopt, .root = value, .dims = {}};
    source.dims.resize(graph_.type(value).shape.size());
    std::iota(source.dims.begin(), source.dims.end(), int64_t{0});
    while (true) {
      const ir::Node& node = graph_.producer(source.root);
      if (node.op == "constant") {
        source.constant = node.attrs.real("value");
        return source;
      }
      if (node.op != "broadcast") return source;
      std::vector<int64_t> dims;
      for (const int64_t dim : node.attrs.list("dims")) dims.push_back(source.dims[static_cast<size_t>(dim)]);
      source.root = node.operands[0];
      source.dims = std::move(dims);
    }
  }

  // Whether something outside `cluster` reads the value before node `limit`. Broadcasts are not readers themselves.
  bool read_outside_before(ValueId value, const std::vector<int>& inside, uint32_t limit,
                           bool through_broadcast) const {
    for (const NodeId user : users_[value.index]) {
      if (kind(graph_.node(user)) == Fusion::broadcast) {
        if (read_outside_before(graph_.node(user).results[0], inside, limit, true)) return true;
        continue;
      }
      if (user.index >= limit) continue;
      const bool member = std::find(inside.begin(), inside.end(), cluster_of_[user.index]) != inside.end();
      if (!member || through_broadcast) return true;
    }
    return false;
  }

  bool can_extend(const std::vector<int>& candidates, uint32_t node) const {
    for (const int c : candidates)
      for (const uint32_t member : clusters_[static_cast<size_t>(c)].members)
        for (const ValueId result : graph_.nodes()[member].results)
          if (read_outside_before(result, candidates, node, false)) return false;
    return true;
  }

  // Whether the node reads a value of the cluster other than as a whole (a reduced value broadcast back, say).
  bool reads_indirectly(const ir::Node& node, int cluster) const {
    for (const ValueId operand : node.operands) {
      const Source source = resolve(operand);
      if (source.constant) continue;
      const int producer = cluster_of_[graph_.value(source.root).producer.index];
      const bool whole =
          source.root == operand && graph_.type(operand).shape == clusters_[static_cast<size_t>(cluster)].shape;
      if (producer == cluster && !whole) return true;
    }
    return false;
  }

  bool accepts(const Cluster& cluster, const ir::Node& node, const Shape& shape) const {
    const int64_t reduced = trailing_reduction(node);
    return cluster.open && cluster.shape == shape && cluster.members.size() < kMaxTileOps &&
           (reduced == 0 || cluster.reduced_dims == 0 || cluster.reduced_dims == reduced);
  }

  void assign(uint32_t index) {
    const ir::Node& node = graph_.nodes()[index];
    if (!is_fusible(node)) return;
    const Shape& shape = graph_.type(trailing_reduction(node) > 0 ? node.operands[0] : node.results[0]).shape;
    const int home = mode_ == Mode::singles ? new_cluster(shape) : find_home(index, shape);
    Cluster& cluster = clusters_[static_cast<size_t>(home)];
    cluster.members.push_back(index);
    cluster.loads.merge(loads_of(node, {home}));
    cluster_of_[index] = home;
    if (const int64_t reduced = trailing_reduction(node); reduced > 0) cluster.reduced_dims = reduced;
    if (cuts_to_integer(node)) cluster.open = false;
  }

  // The cluster that the node joins, those it ties together merged; a new one where none takes it.
  int find_home(uint32_t index, const Shape& shape) {
    const ir::Node& node = graph_.nodes()[index];
    std::vector<int> candidates;
    for (const ValueId operand : node.operands) {
      const int c = cluster_of_[graph_.value(operand).producer.index];
      if (c < 0 || std::find(candidates.begin(), candidates.end(), c) != candidates.end()) continue;
      Cluster& cluster = clusters_[static_cast<size_t>(c)];
      if (!accepts(cluster, node, shape) || reads_indirectly(node, c)) continue;
      if (!can_extend({c}, index)) {
        cluster.open = false;  // later nodes would find the same early reader
        continue;
      }
      candidates.push_back(c);
    }
    keep_compatible(candidates, node, index);
    const int home = candidates.empty() ? new_cluster(shape) : candidates[0];
    for (size_t i = 1; i < candidates.size(); ++i) absorb(home, candidates[i]);
    return home;
  }

  // What the node reads besides constants and results of these clusters.
  std::set<Load> loads_of(const ir::Node& node, const std::vector<int>& inside) const {
    std::set<Load> loads;
    for (const ValueId operand : node.operands) {
      const Source source = resolve(operand);
      if (source.constant) continue;
      const int producer = cluster_of_[graph_.value(source.root).producer.index];
      if (std::find(inside.begin(), inside.end(), producer) == inside.end())
        loads.emplace(source.root.index, source.dims);
    }
    return loads;
  }

  bool loads_fit(const std::vector<int>& together, const ir::Node& node) const {
    std::set<Load> loads = loads_of(node, together);
    for (const int c : together) {
      const std::set<Load>& own = clusters_[static_cast<size_t>(c)].loads;
      loads.insert(own.begin(), own.end());
    }
    return loads.size() <= ops::kMaxTileInputs;
  }

  // Drops candidates that cannot be merged with the first: too large or too many operands together, other reductions,
  // or one reads the other through a broadcast.
  void keep_compatible(std::vector<int>& candidates, const ir::Node& node, uint32_t index) const {
    std::vector<int> kept;
    size_t members = 0;
    int64_t reduced = trailing_reduction(node);
    for (const int c : candidates) {
      const Cluster& cluster = clusters_[static_cast<size_t>(c)];
      const bool same_reduction = reduced == 0 || cluster.reduced_dims == 0 || cluster.reduced_dims == reduced;
      std::vector<int> together = kept;
      together.push_back(c);
      if (members + cluster.members.size() > kMaxTileOps || !same_reduction || !loads_fit(together, node)) continue;
      if (!can_extend(together, index)) continue;
      if (kept.empty() || !feed_each_other_indirectly(together)) {
        kept = std::move(together);
        members += cluster.members.size();
        if (cluster.reduced_dims != 0) reduced = cluster.reduced_dims;
      }
    }
    candidates = std::move(kept);
  }

  bool feed_each_other_indirectly(const std::vector<int>& together) const {
    for (const int reader : together)
      for (const uint32_t member : clusters_[static_cast<size_t>(reader)].members)
        for (const int source : together)
          if (source != reader && reads_indirectly(graph_.nodes()[member], source)) return true;
    return false;
  }

  int new_cluster(const Shape& shape) {
    clusters_.push_back({.shape = shape, .members = {}});
    return static_cast<int>(clusters_.size()) - 1;
  }

  void absorb(int home, int other) {
    Cluster& from = clusters_[static_cast<size_t>(other)];
    Cluster& to = clusters_[static_cast<size_t>(home)];
    for (const uint32_t member : from.members) cluster_of_[member] = home;
    std::vector<uint32_t> merged;
    std::merge(to.members.begin(), to.members.end(), from.members.begin(), from.members.end(),
               std::back_inserter(merged));
    to.members = std::move(merged);
    to.loads.merge(from.loads);
    to.reduced_dims = std::max(to.reduced_dims, from.reduced_dims);
    from.members.clear();
    from.open = false;
  }

  // ---- rebuilding ----

  ir::Graph rebuild() {
    Rewriter rewriter(graph_);
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (kind(node) == Fusion::broadcast) continue;  // made where a node needs it whole
      const int c = cluster_of_[n];
      if (c < 0 || !becomes_fused(clusters_[static_cast<size_t>(c)])) {
        for (const ValueId operand : node.operands) materialise(rewriter, operand);
        rewriter.copy(node);
      } else if (clusters_[static_cast<size_t>(c)].members.back() == n) {
        emit(rewriter, clusters_[static_cast<size_t>(c)]);
      }
    }
    for (const ir::Output& output : graph_.outputs()) materialise(rewriter, output.value);
    return rewriter.finish();
  }

  bool becomes_fused(const Cluster& cluster) const { return mode_ == Mode::singles || cluster.members.size() > 1; }

  // A broadcast or constant that is read as a whole tensor: a node as it is or, in the end, a fused one of its own.
  void materialise(Rewriter& rewriter, ValueId value) {
    if (rewriter.has(value)) return;
    const ir::Node& node = graph_.producer(value);
    MEGACPP_CHECK(kind(node) == Fusion::broadcast) << node.op << " @" << node.scope << " was not built in order";
    if (mode_ == Mode::clusters) {
      for (const ValueId operand : node.operands) materialise(rewriter, operand);
      return rewriter.copy(node);
    }
    ProgramBuilder program(*this, rewriter, graph_.type(value).shape);
    const int reg = program.operand(value);
    program.store(reg, value);
    program.append(node.scope, node.role);
  }

  void emit(Rewriter& rewriter, const Cluster& cluster) {
    ProgramBuilder program(*this, rewriter, cluster.shape);
    ir::Role role = ir::Role::temporary;
    for (const uint32_t member : cluster.members) {
      const ir::Node& node = graph_.nodes()[member];
      const ValueId result = node.results[0];
      if (trailing_reduction(node) > 0) {
        program.fold(program.operand(node.operands[0]), node, trailing_reduction(node));
      } else {
        program.compute(node);
        if (is_read_outside(result, cluster_of_[member])) program.store(program.reg(result), result);
      }
      if (node.role != ir::Role::temporary) role = node.role;
    }
    program.append(graph_.nodes()[cluster.members.back()].scope, role);
  }

  bool is_read_outside(ValueId value, int cluster) const {
    if (is_output_[value.index]) return true;
    for (const NodeId user : users_[value.index]) {
      if (cluster_of_[user.index] != cluster) return true;
    }
    return false;
  }

  // Writes nodes of the graph into one tile program.
  class ProgramBuilder {
   public:
    ProgramBuilder(Fuser& fuser, Rewriter& rewriter, Shape shape)
        : fuser_(fuser), rewriter_(rewriter), tile_(std::move(shape)) {}

    int reg(ValueId value) const { return registers_.at(value.index); }

    int operand(ValueId value) {
      const auto known = registers_.find(value.index);
      if (known != registers_.end()) return known->second;
      const Source source = fuser_.resolve(value);
      return registers_[value.index] =
                 source.constant ? tile_.constant(*source.constant) : tile_.load(source.root, source.dims);
    }

    void compute(const ir::Node& node) {
      std::vector<int> args;
      for (const ValueId id : node.operands) args.push_back(operand(id));
      const std::string name = node.op == "compare" ? node.attrs.text("direction") : node.op;
      registers_[node.results[0].index] = tile_.scalar(ops::find_scalar_op(name), std::move(args));
    }

    void store(int reg, ValueId value) { tile_.output({.kind = TileOutput::Kind::store, .reg = reg}, value); }

    void fold(int reg, const ir::Node& node, int64_t reduced_dims) {
      const bool sum = node.attrs.text("kind") == "sum";
      tile_.output(
          {.kind = sum ? TileOutput::Kind::sum : TileOutput::Kind::max, .reg = reg, .reduced_dims = reduced_dims},
          node.results[0]);
    }

    void append(const std::string& scope, ir::Role role) {
      append_fused(rewriter_, fuser_.graph_, tile_.take(scope, role));
    }

   private:
    Fuser& fuser_;
    Rewriter& rewriter_;
    TileBuilder tile_;
    std::map<uint32_t, int> registers_;
  };

  const ir::Graph& graph_;
  Mode mode_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<int> cluster_of_;  // by node; -1: none
  std::vector<bool> is_output_;
  std::vector<Cluster> clusters_;
};

}  // namespace

bool is_fusible(const ir::Graph& graph, const ir::Node& node) {
  return ops::op_def(node.op).fusion == Fusion::elementwise || trailing_reduction(graph, node) > 0;
}

ir::Graph fuse(const ir::Graph& graph) { return Fuser(graph, Mode::clusters).run(); }

ir::Graph lower_elementwise(const ir::Graph& graph) { return Fuser(graph, Mode::singles).run(); }

}  // namespace megacpp::schedule
