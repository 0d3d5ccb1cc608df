// SPDX-License-Identifier: Apache-2.0
// How often each computation of a program runs, loops and calls multiplied.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/runtime/pjrt/hlo_program.h"

namespace megacpp::runtime::pjrt {

enum class Loops : uint8_t { as_they_run, once };

struct HloRuns {
  int64_t count = 0;
  bool at_least = false;  // a loop around it has an unknown length and was counted as one
};

/// By index into program.computations, for one run of the program; branches count as if all were taken. E3201 for calls
/// that lead nowhere.
std::vector<HloRuns> runs_of(const HloProgram& program, Loops loops = Loops::as_they_run);

/// How much more the program multiplies than XLA's own cost says, which takes the body of a loop as if it ran once; 1
/// for a program without products.
double loop_factor(const HloProgram& program);

}  // namespace megacpp::runtime::pjrt
