// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/merge_siblings.h"

#include <algorithm>
#include <optional>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/tile_builder.h"
#include "megacpp/program/schedule/value_lives.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;
using ops::TileOutput;

class SiblingMerger {
 public:
  explicit SiblingMerger(const ir::Graph& graph)
      : graph_(graph),
        lives_(graph),
        clusters_(graph.nodes().size()),
        is_changed_(graph.nodes().size()),
        last_reader_(graph.values().size()) {}

  ir::Graph run() {
    for (uint32_t n = 0; n < clusters_.size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      collectives_.push_back((n == 0 ? 0 : collectives_.back()) + (ops::op_def(node.op).is_collective ? 1 : 0));
      if (node.op != "fused") continue;
      clusters_[n] = take_apart(node);
      while (merge_an_earlier_into(n)) {
      }
      for (size_t i = 0; i < clusters_[n]->operands.size(); ++i)
        if (clusters_[n]->is_whole(i)) last_reader_[clusters_[n]->operands[i].index] = n;
    }
    return rebuild();
  }

 private:
  bool merge_an_earlier_into(uint32_t n) {
    const TileCluster& cluster = *clusters_[n];
    for (size_t i = 0; i < cluster.operands.size(); ++i) {
      const std::optional<uint32_t> earlier = last_reader_[cluster.operands[i].index];
      if (!earlier || !clusters_[*earlier] || !cluster.is_whole(i) || !can_move(*earlier, n)) continue;
      TileCluster merged = merge(*clusters_[*earlier], cluster);
      if (!merged.is_within_limits()) continue;
      clusters_[n] = std::move(merged);
      clusters_[*earlier].reset();
      is_changed_[n] = is_changed_[*earlier] = true;
      return true;
    }
    return false;
  }

  // Whether `earlier` can run where `later` stands. Nodes only move back, so where they stood is early enough to ask.
  bool can_move(uint32_t earlier, uint32_t later) const {
    const TileCluster &from = *clusters_[earlier], &to = *clusters_[later];
    if (from.shape != to.shape || folded_dims(from) != folded_dims(to)) return false;
    if (collectives_[earlier] != collectives_[later]) return false;
    const auto is_read_before = [&](ValueId value) {
      return !lives_.readers(value).empty() && lives_.readers(value).front() <= later;
    };
    const auto is_alive = [&](ValueId value) {
      return lives_.last_read(value) >= static_cast<int64_t>(later) ||
             (lives_.is_input(value) && !lives_.is_replaced(value));
    };
    return std::none_of(from.results.begin(), from.results.end(), is_read_before) &&
           std::all_of(from.operands.begin(), from.operands.end(), is_alive);
  }

  // 0: no reduction.
  static int64_t folded_dims(const TileCluster& cluster) {
    int64_t folded = 0;
    for (const TileOutput& output : cluster.program.outputs) folded = std::max(folded, output.reduced_dims);
    return folded;
  }

  static TileCluster merge(const TileCluster& earlier, const TileCluster& later) {
    TileBuilder builder(later.shape);
    for (const TileCluster* each : {&earlier, &later})
      builder.import_outputs(*each, [](int) -> std::optional<int> { return std::nullopt; });
    return builder.take(later.scope, later.role == ir::Role::temporary ? earlier.role : later.role);
  }

  ir::Graph rebuild() {
    Rewriter rewriter(graph_);
    for (uint32_t n = 0; n < clusters_.size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (!is_changed_[n])
        rewriter.copy(node);
      else if (clusters_[n])
        append_fused(rewriter, graph_, std::move(*clusters_[n]));
    }
    return rewriter.finish();
  }

  const ir::Graph& graph_;
  ValueLives lives_;
  std::vector<std::optional<TileCluster>> clusters_;  // by node; those that moved are gone
  std::vector<bool> is_changed_;                      // by node
  std::vector<std::optional<uint32_t>> last_reader_;  // by value: the last cluster so far that reads it whole
  std::vector<int64_t> collectives_;                  // by node: how many up to it
};

}  // namespace

ir::Graph merge_siblings(const ir::Graph& graph) { return SiblingMerger(graph).run(); }

}  // namespace megacpp::schedule
