// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/cut_stages.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/partition/divide_graph.h"

namespace megacpp::partition {
namespace {

using ir::ValueId;

std::optional<int64_t> block_of(std::string_view scope) {
  constexpr std::string_view kBlock = "block";
  const std::string_view block = ir::scope_block(scope);
  if (!block.starts_with(kBlock)) return std::nullopt;
  int64_t index = 0;
  const char* const end = block.data() + block.size();
  const auto [parsed, error] = std::from_chars(block.data() + kBlock.size(), end, index);
  return error == std::errc() && parsed == end ? std::optional(index) : std::nullopt;
}

int64_t count_blocks(const ir::Graph& graph) {
  int64_t blocks = 0;
  for (const ir::Node& node : graph.nodes()) blocks = std::max(blocks, block_of(node.scope).value_or(-1) + 1);
  return blocks;
}

// The block beside which a node runs: what comes before the blocks stays with the first, what comes after with the
// last.
int64_t neighbouring_block(const ir::Node& node, int64_t blocks) {
  if (const std::optional<int64_t> block = block_of(node.scope)) return *block;
  const std::string_view part = ir::scope_block(node.scope);
  return part == "final_norm" || part == "head" || part == "loss" ? blocks - 1 : 0;
}

std::vector<bool> repeated_in_stages(const ir::Graph& graph) {
  std::vector<bool> repeated = depends_on_inputs_alone(graph);
  for (size_t n = 0; n < repeated.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    repeated[n] = repeated[n] && (node.operands.empty() || !block_of(node.scope));
  }
  return repeated;
}

// By value: whether a cotangent of `loss` passes through it on its way to a weight that is not frozen, by the rule
// autodiff goes by.
std::vector<bool> gradient_path(const ir::Graph& graph, ValueId loss, const std::set<std::string>& frozen) {
  std::vector<bool> reaches_weight(graph.values().size(), false), reaches_loss(graph.values().size(), false);
  for (const ir::Node& node : graph.nodes()) {
    const bool is_weight =
        node.op == ir::kInputOp && node.role == ir::Role::weight && !frozen.contains(node.attrs.text("name"));
    const bool reads = std::any_of(node.operands.begin(), node.operands.end(),
                                   [&](ValueId operand) { return reaches_weight[operand.index]; });
    if (!is_weight && !(reads && ops::op_def(node.op).grad)) continue;
    for (const ValueId result : node.results) reaches_weight[result.index] = ir::is_float(graph.type(result).dtype);
  }
  reaches_loss[loss.index] = true;
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const ir::Node& node = graph.nodes()[n];
    const bool reached = std::any_of(node.results.begin(), node.results.end(),
                                     [&](ValueId result) { return reaches_loss[result.index]; });
    if (!reached || !ops::op_def(node.op).grad) continue;
    for (const ValueId operand : node.operands)
      if (reaches_weight[operand.index]) reaches_loss[operand.index] = true;
  }
  for (size_t v = 0; v < reaches_loss.size(); ++v) reaches_loss[v] = reaches_loss[v] && reaches_weight[v];
  return reaches_loss;
}

std::vector<SharedWeight> shared_weights(const ir::Graph& graph, const std::vector<Stage>& stages) {
  std::vector<SharedWeight> shared;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    if (node.role != ir::Role::weight) continue;
    SharedWeight weight{.name = node.attrs.text("name"), .stages = {}};
    for (size_t s = 0; s < stages.size(); ++s)
      if (stages[s].values[node.results[0].index].index != UINT32_MAX) weight.stages.push_back(s);
    if (weight.stages.size() > 1) shared.push_back(std::move(weight));
  }
  return shared;
}

double flops_of(const ir::Graph& graph, const ir::Node& node) {
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  return ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct BestSplit {
  double value = kInfinite;
  std::vector<int64_t> first_blocks;  // of all stages but the first
};

// Splits blocks into runs so that `combine`, applied to what the runs before give and the cost of the next run, ends
// lowest. Dynamic programming over the number of runs and the block where the last one ends.
BestSplit best_split(const std::vector<double>& costs, size_t runs,
                     const std::function<double(double so_far, double run)>& combine) {
  // Ties go to the earlier cut; rounding must not decide them, or machines would disagree.
  constexpr double kClearlyLess = 1 - 1e-9;
  const size_t blocks = costs.size();
  std::vector<std::vector<double>> best(runs + 1, std::vector<double>(blocks + 1, kInfinite));
  std::vector<std::vector<size_t>> start(runs + 1, std::vector<size_t>(blocks + 1, 0));
  best[0][0] = 0;
  for (size_t run = 1; run <= runs; ++run) {
    for (size_t end = run; end <= blocks; ++end) {
      double cost = 0;
      std::vector<double> from(end, 0);  // cost of the run that starts at each block and ends here
      for (size_t first = end; first-- > 0;) from[first] = cost += costs[first];
      for (size_t first = run - 1; first < end; ++first) {
        if (best[run - 1][first] == kInfinite) continue;
        const double value = combine(best[run - 1][first], from[first]);
        if (!(value < best[run][end] * kClearlyLess)) continue;
        best[run][end] = value;
        start[run][end] = first;
      }
    }
  }
  BestSplit split{.value = best[runs][blocks], .first_blocks = {}};
  for (size_t run = runs, end = blocks; run > 1; --run) {
    end = start[run][end];
    split.first_blocks.insert(split.first_blocks.begin(), static_cast<int64_t>(end));
  }
  return split;
}

}  // namespace

StageCut cut_stages(const ir::Graph& graph, ValueId loss, const std::vector<int64_t>& first_blocks,
                    const std::set<std::string>& frozen) {
  const int64_t blocks = count_blocks(graph);
  const auto is_legal = [&](int64_t first) { return first > 0 && first < blocks; };
  MEGACPP_CHECK(std::adjacent_find(first_blocks.begin(), first_blocks.end(), std::greater_equal<>()) ==
                    first_blocks.end() &&
                std::all_of(first_blocks.begin(), first_blocks.end(), is_legal))
      << "stages begin at ascending blocks inside (0, " << blocks << ")";
  Division division{.parts = {}, .part_of = {}, .is_repeated = repeated_in_stages(graph), .prefix = "carry."};
  for (size_t s = 0; s <= first_blocks.size(); ++s) division.parts.push_back("stage" + std::to_string(s));
  for (const ir::Node& node : graph.nodes()) {
    const auto after = std::upper_bound(first_blocks.begin(), first_blocks.end(), neighbouring_block(node, blocks));
    division.part_of.push_back(static_cast<size_t>(after - first_blocks.begin()));
  }
  Divided divided = divide_graph(graph, division);
  StageCut cut;
  for (Part& part : divided.parts) cut.stages.push_back({std::move(part.graph), {}, {}, std::move(part.values)});
  const std::vector<bool> has_gradient = gradient_path(graph, loss, frozen);
  for (const Crossing& crossing : divided.crossings) {
    const Carry carry{crossing.name, has_gradient[crossing.value.index]};
    for (size_t s = crossing.made_in; s < crossing.last_read_in; ++s) {
      cut.stages[s].carried_out.push_back(carry);
      cut.stages[s + 1].carried_in.push_back(carry);
    }
  }
  cut.shared = shared_weights(graph, cut.stages);
  return cut;
}

std::vector<int64_t> balanced_cuts(const ir::Graph& graph, int64_t stages, const std::vector<int64_t>& wanted_cuts) {
  const int64_t blocks = count_blocks(graph);
  MEGACPP_REQUIRE(stages >= 1 && stages <= blocks, E1005,
                  {.where = "pipeline stages of " + graph.name(),
                   .got = std::to_string(stages) + " stages over " + std::to_string(blocks) + " blocks",
                   .wanted = "at least 1 stage and at most one per block",
                   .next = stages < 1 ? "take 1" : "take at most " + std::to_string(blocks) + ", or a deeper model"});
  if (static_cast<int64_t>(wanted_cuts.size()) == stages - 1) return wanted_cuts;
  std::vector<double> costs(static_cast<size_t>(blocks), 0);
  for (const ir::Node& node : graph.nodes())
    costs[static_cast<size_t>(neighbouring_block(node, blocks))] += flops_of(graph, node);
  const size_t runs = static_cast<size_t>(stages);
  const double largest = best_split(costs, runs, [](double so_far, double run) { return std::max(so_far, run); }).value;
  const double limit = largest * (1 + 1e-9);
  // Among all splits with the smallest largest stage, the one whose squares add up to least is the most even.
  return best_split(costs, runs,
                    [limit](double so_far, double run) { return run > limit ? kInfinite : so_far + run * run; })
      .first_blocks;
}

}  // namespace megacpp::partition
