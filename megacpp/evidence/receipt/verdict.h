// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a receipt may stand beside another's, from its content alone. One table of rules: each has a
// name, a test, the sentence a user reads, and what to do about it. What is not known (a receipt of a killed run has no
// counters) makes no rule hold: rules are of what is known to be wrong. But one: where it is not known what ran,
// nothing is.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::receipt {

/// Fewer say nothing of how steady a run is.
inline constexpr int64_t kLeastSteadySteps = 10;
inline constexpr size_t kLeastSamples = 5;
/// The middle half of steady steps is closer together than this share of their median; else something else ran, too.
inline constexpr double kMostSpread = 0.25;

struct Rule {
  std::string_view name;  // "host sync"
  std::function<bool(const Receipt&)> holds;
  std::function<std::string(const Receipt&)> sentence;  // of a receipt that it holds for
  std::string_view next;                                // step for who wants to compare: "let it make all its steps"
};

/// In the order in which reasons are listed.
const std::vector<Rule>& all_rules();
/// The next step of a reason; empty for one that no rule of this version has.
std::string_view next_step(const Reason& reason);

Verdict verdict_of(const Receipt& receipt);

}  // namespace megacpp::receipt
