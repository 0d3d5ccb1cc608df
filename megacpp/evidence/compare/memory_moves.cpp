// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/memory_moves.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace megacpp::compare {
namespace {

std::vector<RoleMove> role_moves(const receipt::ChipGroup& baseline, const receipt::ChipGroup& other) {
  std::map<std::pair<std::string, std::string>, RoleMove> moves;
  const auto move_of = [&moves](const receipt::MemoryItem& item) -> RoleMove& {
    RoleMove& move = moves[{item.role, item.family}];
    move.role = item.role;
    move.family = item.family;
    return move;
  };
  for (const receipt::MemoryItem& item : baseline.items) move_of(item).baseline += item.bytes;
  for (const receipt::MemoryItem& item : other.items) move_of(item).other += item.bytes;
  std::vector<RoleMove> moved;
  for (const auto& [key, move] : moves)
    if (move.change() != 0) moved.push_back(move);
  std::ranges::stable_sort(moved, std::ranges::greater{}, [](const RoleMove& move) { return std::abs(move.change()); });
  return moved;
}

// Of a group its first chip is known; where all chips are planned alike, so are the others.
std::optional<int64_t> planned_bytes_of(int64_t chip, const receipt::Memory& memory) {
  for (const receipt::ChipGroup& group : memory.planned)
    if (group.chip == chip) return group.planned_bytes;
  const receipt::ChipGroup& first = memory.planned.front();
  return memory.planned.size() == 1 && chip < first.chips ? std::optional(first.planned_bytes) : std::nullopt;
}

std::vector<ChipMove> chip_moves(const receipt::Memory& baseline, const receipt::Memory& other) {
  std::map<int64_t, ChipMove> moves;  // by number
  for (const receipt::Memory* memory : {&baseline, &other})
    for (const receipt::ChipGroup& group : memory->planned) {
      std::string& place = moves[group.chip].place;
      place = place.empty() || place == group.place ? group.place : fmt::format("chip {}", group.chip);
    }
  std::vector<ChipMove> moved;
  for (auto& [chip, move] : moves) {
    move.baseline = planned_bytes_of(chip, baseline);
    move.other = planned_bytes_of(chip, other);
    if (move.baseline != move.other) moved.push_back(move);
  }
  return moved;
}

}  // namespace

std::optional<MemoryMoves> memory_moves(const receipt::Memory& baseline, const receipt::Memory& other) {
  if (baseline.planned.empty() || other.planned.empty()) return std::nullopt;
  const receipt::ChipGroup& before = baseline.planned.front();
  const receipt::ChipGroup& after = other.planned.front();
  MemoryMoves moves{.baseline_chip = before.place,
                    .other_chip = after.place,
                    .baseline = before.planned_bytes,
                    .other = after.planned_bytes};
  moves.roles = role_moves(before, after);
  moves.chips = chip_moves(baseline, other);
  moves.unexplained = moves.change();
  for (const RoleMove& move : moves.roles) moves.unexplained -= move.change();
  return moves;
}

}  // namespace megacpp::compare
