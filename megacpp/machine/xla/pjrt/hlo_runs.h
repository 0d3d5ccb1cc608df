// SPDX-License-Identifier: Apache-2.0
// How often each computation of a program runs, loops and calls multiplied.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/machine/xla/pjrt/hlo_program.h"

namespace megacpp::runtime::pjrt {

enum class Loops : uint8_t { as_they_run, once };

struct HloRuns {
  int64_t count = 0;
  /// A loop around it has a length the compiler did not note: counted as the bound in its condition says, if it counts
  /// from 0 by 1 to a constant, otherwise as one.
  bool at_least = false;
  /// Nothing says how long a loop around it is, as where each chip counts the blocks it sees, so that it is counted
  /// once; or it runs more often than kMostRuns, which is counted.
  bool is_short = false;
};

inline constexpr int64_t kMostRuns = int64_t{1} << 30;

/// By index into program.computations, for one run of the program; branches count as if all were taken. E3201 for calls
/// that lead nowhere.
std::vector<HloRuns> runs_of(const HloProgram& program, Loops loops = Loops::as_they_run);

struct LoopFactor {
  double factor = 1;
  bool at_least = false;  // products run more often than could be counted (HloRuns::is_short)
};

/// How much more the program multiplies than XLA's own cost says, which takes the body of a loop as if it ran once; 1
/// for a program without products.
LoopFactor loop_factor(const HloProgram& program);

}  // namespace megacpp::runtime::pjrt
