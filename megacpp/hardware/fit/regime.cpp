// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/regime.h"

#include <array>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"

namespace megacpp::fit {
namespace {

// A program that changes after step 0 is one whether it had to be compiled or a cache had it.
std::string late_programs(const RegimeFacts& facts) {
  std::string text = facts.late_compiles > 0 ? base::counted(facts.late_compiles, "compile") : "";
  if (facts.late_cache_hits > 0)
    text += (text.empty() ? "" : " and ") + base::counted(facts.late_cache_hits, "program") + " from the cache";
  return text + " after step 0";
}

Regime by_time(const StepTime& time) {
  const StepPart part = time.largest();
  const auto of = [&](RegimeKind kind, double seconds) {
    const double share = time.seconds() > 0 ? seconds / time.seconds() : 0;
    return Regime{kind, fmt::format("{}: {:.0f}% of the step", part_name(part), 100 * share)};
  };
  switch (part) {
    case StepPart::arithmetic:
      return of(RegimeKind::enough_work, time.compute);
    case StepPart::memory:
      return of(RegimeKind::memory_or_context, time.memory);
    case StepPart::links:
      return of(RegimeKind::communication, time.exposed);
    case StepPart::bubble:
      return of(RegimeKind::communication, time.bubble);
    case StepPart::other:
      return of(RegimeKind::host, time.other);
  }
  return {};
}

}  // namespace

std::string_view regime_name(RegimeKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {
      "enough work", "communication", "memory or context", "host or slower chips", "unstable compile or fallback",
      "not measured"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_text(const Regime& regime) { return fmt::format("{} ({})", regime_name(regime.kind), regime.because); }

Regime regime_of(const std::optional<StepTime>& time, const RegimeFacts& facts) {
  if (facts.late_compiles + facts.late_cache_hits > 0) return {RegimeKind::unstable, late_programs(facts)};
  if (facts.fallbacks > 0) return {RegimeKind::unstable, base::counted(facts.fallbacks, "fallback")};
  if (!facts.fits) return {RegimeKind::memory_or_context, "it does not fit"};
  if (facts.was_shrunk) return {RegimeKind::memory_or_context, "the requested recipe did not fit"};
  if (time) return by_time(*time);
  return {RegimeKind::not_measured,
          facts.unmeasured.empty() ? "nothing says where the time of a step went" : facts.unmeasured};
}

Regime regime_of(const Estimate& estimate) {
  return regime_of(estimate.time, {.fallbacks = estimate.compiled.fallbacks.size(), .fits = estimate.fit.may_fit()});
}

}  // namespace megacpp::fit
