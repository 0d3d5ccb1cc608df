// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compare/memory_moves.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

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

std::vector<ChipMove> chip_moves(const receipt::Memory& baseline, const receipt::Memory& other) {
  std::map<std::string, ChipMove> moves;
  for (const receipt::ChipGroup& group : baseline.planned) moves[group.place].baseline = group.planned_bytes;
  for (const receipt::ChipGroup& group : other.planned) moves[group.place].other = group.planned_bytes;
  std::vector<ChipMove> moved;
  for (auto& [place, move] : moves) {
    move.place = place;
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
