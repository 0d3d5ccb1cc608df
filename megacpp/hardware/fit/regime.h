// SPDX-License-Identifier: Apache-2.0
// Where a plan or a run stands, in one of five words that say where to look first: chips have enough work, they wait
// for each other or for the host, memory holds them back, or the program is not what it should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "megacpp/hardware/fit/estimate.h"

namespace megacpp::fit {

enum class RegimeKind : uint8_t { enough_work, communication, memory_or_context, host, unstable, not_measured };
/// "enough work", "communication", "memory or context", "host or slower chips", "unstable compile or fallback",
/// "not measured"
std::string_view regime_name(RegimeKind kind);

struct Regime {
  RegimeKind kind = RegimeKind::enough_work;
  std::string because;  // "arithmetic bounds the step", "links: 61% of the step"
};
/// "communication (links: 61% of the step)"
std::string to_text(const Regime& regime);

/// What decides beside the time of a step. All but the first two are known of a run alone.
struct RegimeFacts {
  size_t fallbacks = 0;         // ops without a kernel, run as their parts
  bool fits = true;             // every chip, or may
  size_t late_compiles = 0;     // after step 0
  size_t late_cache_hits = 0;   // programs made after step 0 that a cache had
  std::string unmeasured = {};  // why a run has no time of a step; empty: not known
  bool was_shrunk = false;      // memory did not suffice for what was requested, and the ladder found less
};

/// The first that holds: a program that changes or falls back makes predictions worth little; without memory nothing
/// runs; then what takes the largest part of the step. `time` is predicted of a plan and measured of a run; a run that
/// could not measure its parts has none, and is told so.
Regime regime_of(const std::optional<StepTime>& time, const RegimeFacts& facts);
/// Of a plan.
Regime regime_of(const Estimate& estimate);

}  // namespace megacpp::fit
