// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/node_use.h"

#include <algorithm>
#include <string>
#include <utility>

#include "megacpp/ops/op_def.h"

namespace megacpp::fit {
namespace {

// Rows are [b, c, experts, places, h], and come from tokens with slots [b, c, tokens, choices].
constexpr size_t kRowsRank = 5, kExperts = 2, kPlaces = 3;

bool are_rows(const ir::TensorType& type) { return type.shape.size() == kRowsRank; }

/// Slots of a chunk's tokens that rows of all experts come from, of what programs leave for others.
using SlotsByName = std::map<std::string, int64_t>;

/// The same by value; 0: they are no such rows. Adds what the program leaves.
std::vector<int64_t> slots_of_rows(const ir::Graph& graph, SlotsByName& left) {
  std::vector<int64_t> slots(graph.values().size(), 0);
  for (const ir::Node& node : graph.nodes()) {
    int64_t found = 0;
    for (const ir::ValueId operand : node.operands) found = std::max(found, slots[operand.index]);
    if (node.op == ir::kInputOp) {
      const auto before = left.find(node.attrs.text("name"));
      if (before != left.end()) found = before->second;
    } else if (node.op == "dispatch") {
      const ir::Shape& shape = graph.type(node.operands[1]).shape;
      found = shape[2] * shape[3];
    }
    for (const ir::ValueId result : node.results)
      if (are_rows(graph.type(result))) slots[result.index] = found;
  }
  for (const ir::Output& output : graph.outputs())
    if (slots[output.value.index] > 0) left[output.name] = slots[output.value.index];
  return slots;
}

/// 0 for work whose rate is one of moving.
int64_t near_distance(const hw::NearDistances& near, ops::Work work) {
  switch (work) {
    case ops::Work::product:
      return near.products;
    case ops::Work::attention:
      return near.attention;
    case ops::Work::attention_grad:
      return near.attention_grad;
    case ops::Work::ssd:
      return near.ssd;
    case ops::Work::traffic:
    case ops::Work::elementwise:
      break;
  }
  return 0;
}

/// Of one program, in a mesh where experts are split into so many parts.
class ProgramUse {
 public:
  ProgramUse(const ir::Graph& graph, const memory::ProgramPlan& plan, std::vector<int64_t> slots, int64_t expert_parts,
             const hw::Chip& device)
      : graph_(graph), plan_(plan), slots_(std::move(slots)), expert_parts_(expert_parts), device_(device) {}

  std::vector<NodeUse> of_nodes(TouchedBytes& arena) const {
    std::vector<NodeUse> uses(graph_.nodes().size());
    for (size_t n = 0; n < uses.size(); ++n)
      if (ops::op_def(graph_.nodes()[n].op).is_work()) uses[n] = of(graph_.nodes()[n], arena);
    return uses;
  }

 private:
  NodeUse of(const ir::Node& node, TouchedBytes& arena) const {
    NodeUse use;
    const ops::Work work = ops::op_def(node.op).work;
    const bool has_spare_places = work == ops::Work::product;
    const double near = hw::move_seconds(device_.moves, static_cast<double>(near_distance(device_.near, work)));
    for (const std::vector<ir::ValueId>* values : {&node.operands, &node.results})
      for (const ir::ValueId value : *values) {
        if (plan_.value_space[value.index] != memory::Space::device) continue;
        const double share = has_spare_places ? share_in_use(value) : 1;
        use.rows = std::min(use.rows, share);
        const int64_t all = graph_.type(value).bytes();
        const double bytes = share * static_cast<double>(all);
        const double seconds = share * arena.touch(device_.moves, plan_.value_offset[value.index], all);
        use.bytes += bytes;
        use.seconds += seconds;
        use.waiting += std::max(0.0, seconds - bytes * near);
      }
    return use;
  }

  double share_in_use(ir::ValueId value) const {
    if (slots_[value.index] == 0) return 1;
    const ir::Shape& rows = graph_.type(value).shape;
    const int64_t places = rows[kExperts] * expert_parts_ * rows[kPlaces];
    return std::min(1.0, static_cast<double>(slots_[value.index]) / static_cast<double>(places));
  }

  const ir::Graph& graph_;
  const memory::ProgramPlan& plan_;
  std::vector<int64_t> slots_;
  int64_t expert_parts_;
  const hw::Chip& device_;
};

}  // namespace

double TouchedBytes::seconds_of(const std::vector<hw::MoveRate>& moves, int64_t bytes, int64_t at) const {
  const int64_t distance = std::min(touched_ - at, arena_bytes_);
  return static_cast<double>(bytes) * hw::move_seconds(moves, static_cast<double>(distance));
}

double TouchedBytes::touch(const std::vector<hw::MoveRate>& moves, int64_t offset, int64_t bytes) {
  const int64_t end = offset + bytes;
  double seconds = 0;
  int64_t known = 0;
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin() && std::prev(piece)->second.end > offset) --piece;
  while (piece != pieces_.end() && piece->first < end) {
    const auto [begin, old] = *piece;
    const int64_t overlap = std::min(end, old.end) - std::max(offset, begin);
    known += overlap;
    seconds += seconds_of(moves, overlap, old.at);
    piece = pieces_.erase(piece);
    if (begin < offset) pieces_[begin] = {offset, old.at};
    if (old.end > end) piece = pieces_.insert_or_assign(end, Piece{old.end, old.at}).first;
  }
  seconds += seconds_of(moves, bytes - known, touched_ - arena_bytes_);
  touched_ += bytes;
  if (bytes > 0) pieces_[offset] = {end, touched_};
  return seconds;
}

std::vector<std::vector<NodeUse>> uses_in_step(const compile::StagePrograms& chip, const ir::Mesh& mesh,
                                               const hw::Chip& device) {
  if (device.moves.empty()) return {};
  const int64_t expert_parts = mesh.size(ir::axes_named(mesh, "expert"));
  SlotsByName left;
  std::vector<ProgramUse> programs;
  for (size_t p = 0; p < chip.programs.size(); ++p) {
    const ir::Graph& graph = chip.programs[p].graph;
    const memory::ProgramPlan& plan = chip.memory.programs[p];
    if (plan.value_offset.size() != graph.values().size()) return {};
    programs.emplace_back(graph, plan, slots_of_rows(graph, left), expert_parts, device);
  }
  TouchedBytes arena(chip.memory.total_bytes);
  for (const ProgramUse& program : programs) program.of_nodes(arena);  // the first step
  std::vector<std::vector<NodeUse>> uses;
  for (const ProgramUse& program : programs) uses.push_back(program.of_nodes(arena));
  return uses;
}

}  // namespace megacpp::fit
