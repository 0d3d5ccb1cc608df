// SPDX-License-Identifier: Apache-2.0
// Where memory moved between two runs: the worst chip by role and family, and every group of chips.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

/// Planned bytes at the peak of the chip with the least free, in one run and in the other.
struct RoleMove {
  std::string role;    // "optimizer"
  std::string family;  // letter of the block; empty: outside blocks
  int64_t baseline = 0;
  int64_t other = 0;

  int64_t change() const { return other - baseline; }
};

/// Planned peak of a chip, the first of those that one of the runs plans alike; absent where a run's plan does not
/// tell.
struct ChipMove {
  std::string place;  // in the mesh, or its number where it stands elsewhere in the other one
  std::optional<int64_t> baseline = {};
  std::optional<int64_t> other = {};
};

struct MemoryMoves {
  std::string baseline_chip, other_chip;  // the worst of each
  int64_t baseline = 0;                   // bytes of these, planned
  int64_t other = 0;
  std::vector<RoleMove> roles = {};  // that moved, the largest first
  std::vector<ChipMove> chips = {};  // that moved, by number
  int64_t unexplained = 0;           // bytes of the change that no role has: padding

  int64_t change() const { return other - baseline; }
};

/// Nothing where a run has no plan.
std::optional<MemoryMoves> memory_moves(const receipt::Memory& baseline, const receipt::Memory& other);

}  // namespace megacpp::compare
