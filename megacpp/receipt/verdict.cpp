// SPDX-License-Identifier: Apache-2.0
#include "megacpp/receipt/verdict.h"

#include <fmt/format.h>

namespace megacpp::receipt {
namespace {

bool ended_early(const Receipt& receipt) { return receipt.ending.kind != EndingKind::finished; }

std::string early_sentence(const Receipt& receipt) {
  const Ending& ending = receipt.ending;
  const std::string code = ending.failure ? " with " + ending.failure->code : "";
  const bool goes_on = ending.kind == EndingKind::running;
  return fmt::format("The run {}{} after {} of {} steps.",
                     goes_on ? "goes on" : fmt::format("ended early ({})", ending_name(ending.kind)), code,
                     ending.steps, ending.requested_steps);
}

/// Steps of the steady window.
int64_t steady_steps(const Receipt& receipt) { return receipt.times.steady ? receipt.times.steady->steps : 0; }

bool has_too_few(const Receipt& receipt) {
  return steady_steps(receipt) < kLeastSteadySteps || receipt.times.samples.seconds.size() < kLeastSamples;
}

std::string few_sentence(const Receipt& receipt) {
  return fmt::format("The steady window has {} steps and {} samples of their time; {} and {} are the least.",
                     steady_steps(receipt), receipt.times.samples.seconds.size(), kLeastSteadySteps, kLeastSamples);
}

bool compiled_late(const Receipt& receipt) {
  return receipt.counters.steady && receipt.counters.steady->programs_made > 0;
}

std::string late_sentence(const Receipt& receipt) {
  return fmt::format("{} programs were compiled or loaded after the warm-up.", receipt.counters.steady->programs_made);
}

bool fell_back(const Receipt& receipt) { return !receipt.counters.fallbacks.empty(); }

std::string fallback_sentence(const Receipt& receipt) {
  std::string ops;
  for (const Fallback& fallback : receipt.counters.fallbacks)
    ops += fmt::format("{}{} x {}", ops.empty() ? "" : ", ", fallback.count, fallback.op);
  return fmt::format("Ops without a kernel ran as their parts: {}.", ops);
}

bool waited(const Receipt& receipt) { return receipt.counters.steady && receipt.counters.steady->host_syncs > 0; }

std::string sync_sentence(const Receipt& receipt) {
  return fmt::format("The host waited for devices {} times in the steady window.", receipt.counters.steady->host_syncs);
}

bool spreads(const Receipt& receipt) {
  const std::optional<Spread>& spread = receipt.times.spread;
  return spread && !(spread->relative() <= kMostSpread);
}

std::string spread_sentence(const Receipt& receipt) {
  return fmt::format("The middle half of the steady steps spans {:.0f} % of their median; {:.0f} % is the most.",
                     100 * receipt.times.spread->relative(), 100 * kMostSpread);
}

bool was_throttled(const Receipt& receipt) { return receipt.counters.throttled.value_or(0) > 0; }

std::string throttled_sentence(const Receipt& receipt) {
  return fmt::format("Cores of the machine were slowed down {} times while it ran.", *receipt.counters.throttled);
}

}  // namespace

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {{"ended early", ended_early, early_sentence},
                                          {"too few steps", has_too_few, few_sentence},
                                          {"compile after warm-up", compiled_late, late_sentence},
                                          {"fallback", fell_back, fallback_sentence},
                                          {"host sync", waited, sync_sentence},
                                          {"unstable spread", spreads, spread_sentence},
                                          {"clocks throttled", was_throttled, throttled_sentence}};
  return rules;
}

Verdict verdict_of(const Receipt& receipt) {
  Verdict verdict;
  for (const Rule& rule : all_rules())
    if (rule.holds(receipt))
      verdict.reasons.push_back({.name = std::string(rule.name), .sentence = rule.sentence(receipt)});
  return verdict;
}

}  // namespace megacpp::receipt
