// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/node_use.h"

#include <algorithm>

#include "megacpp/ops/op_def.h"

namespace megacpp::fit {
namespace {

NodeUse use_node(const ir::Graph& graph, const ir::Node& node, const memory::ProgramPlan& plan, const hw::Chip& device,
                 TouchedBytes& arena) {
  NodeUse use;
  for (const std::vector<ir::ValueId>* values : {&node.operands, &node.results})
    for (const ir::ValueId value : *values) {
      if (plan.value_space[value.index] != memory::Space::device) continue;
      const int64_t bytes = graph.type(value).bytes();
      use.seconds += arena.touch(device, plan.value_offset[value.index], bytes);
      use.near += static_cast<double>(bytes) * hw::move_seconds(device, 0);
    }
  return use;
}

// Rows are [b, c, experts, places, h], and come from tokens with slots [b, c, tokens, choices].
constexpr size_t kRowsRank = 5, kExperts = 2, kPlaces = 3;

/// By places of an expert.
std::map<int64_t, double> rows_in_use(const ir::Graph& graph) {
  std::map<int64_t, double> shares;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != "dispatch") continue;
    const ir::Shape &rows = graph.type(node.results[0]).shape, &slots = graph.type(node.operands[1]).shape;
    if (rows.size() != kRowsRank) continue;
    const auto chosen = static_cast<double>(slots[2] * slots[3]);
    shares[rows[kPlaces]] = std::min(1.0, chosen / static_cast<double>(rows[kExperts] * rows[kPlaces]));
  }
  return shares;
}

std::vector<NodeUse> use_program(const ir::Graph& graph, const memory::ProgramPlan& plan, const hw::Chip& device,
                                 TouchedBytes& arena) {
  const std::map<int64_t, double> shares = rows_in_use(graph);
  std::vector<NodeUse> uses(graph.nodes().size());
  for (size_t n = 0; n < uses.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    const ops::OpDef& op = ops::op_def(node.op);
    if (!op.is_work()) continue;
    uses[n] = use_node(graph, node, plan, device, arena);
    if (op.work != ops::Work::product) continue;
    const ir::Shape& rows = graph.type(node.operands[0]).shape;
    const auto share = rows.size() == kRowsRank ? shares.find(rows[kPlaces]) : shares.end();
    if (share != shares.end()) uses[n].rows = share->second;
  }
  return uses;
}

}  // namespace

double TouchedBytes::seconds_of(const hw::Chip& chip, int64_t bytes, int64_t at) const {
  const int64_t distance = std::min(touched_ - at, arena_bytes_);
  return static_cast<double>(bytes) * hw::move_seconds(chip, static_cast<double>(distance));
}

double TouchedBytes::touch(const hw::Chip& chip, int64_t offset, int64_t bytes) {
  const int64_t end = offset + bytes;
  double seconds = 0;
  int64_t known = 0;
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > offset) --piece;
  while (piece != pieces_.end() && piece->first < end) {
    const auto [begin, old] = *piece;
    const int64_t overlap = std::min(end, old.end) - std::max(offset, begin);
    known += overlap;
    seconds += seconds_of(chip, overlap, old.at);
    piece = pieces_.erase(piece);
    if (begin < offset) pieces_[begin] = {offset, old.at};
    if (old.end > end) piece = pieces_.insert_or_assign(end, Piece{old.end, old.at}).first;
  }
  seconds += seconds_of(chip, bytes - known, touched_ - arena_bytes_);
  touched_ += bytes;
  if (bytes > 0) pieces_[offset] = {end, touched_};
  return seconds;
}

std::vector<std::vector<NodeUse>> uses_in_step(const compile::StagePrograms& chip, const hw::Chip& device) {
  const auto has_offsets = [&](size_t program) {
    return chip.memory.programs[program].value_offset.size() == chip.programs[program].graph.values().size();
  };
  if (device.moves.empty() || chip.programs.empty() || !has_offsets(0)) return {};
  TouchedBytes arena(chip.memory.total_bytes);
  std::vector<std::vector<NodeUse>> uses;
  for (const bool is_first_step : {true, false})
    for (size_t program = 0; program < chip.programs.size(); ++program) {
      std::vector<NodeUse> nodes =
          use_program(chip.programs[program].graph, chip.memory.programs[program], device, arena);
      if (!is_first_step) uses.push_back(std::move(nodes));
    }
  return uses;
}

}  // namespace megacpp::fit
