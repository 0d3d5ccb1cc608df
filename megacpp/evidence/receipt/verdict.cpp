// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"

namespace megacpp::receipt {
namespace {

bool is_program_unknown(const Receipt& receipt) { return receipt.header.versions.code.empty(); }

std::string unknown_sentence(const Receipt&) {
  return "It is not known which program ran it and on what: the receipt was made of a recipe and a log alone.";
}

bool ended_early(const Receipt& receipt) { return receipt.ending.kind != EndingKind::finished; }

std::string early_sentence(const Receipt& receipt) {
  const Ending& ending = receipt.ending;
  const std::string code = ending.failure ? " with " + ending.failure->code : "";
  const bool goes_on = ending.kind == EndingKind::running;
  return fmt::format("The run {}{} after {} of {} steps.",
                     goes_on ? "goes on" : fmt::format("ended early ({})", base::text_of(ending.kind)), code,
                     ending.steps, ending.requested_steps);
}

/// Steps of the steady window.
int64_t steady_steps(const Receipt& receipt) { return receipt.times.steady ? receipt.times.steady->steps : 0; }

bool has_too_few(const Receipt& receipt) {
  return steady_steps(receipt) < kLeastSteadySteps || receipt.times.samples.seconds.size() < kLeastSamples;
}

std::string few_sentence(const Receipt& receipt) {
  return fmt::format("The steady window has {} and {} of their time; {} and {} are the least.",
                     base::counted(steady_steps(receipt), "step"),
                     base::counted(std::ssize(receipt.times.samples.seconds), "sample"), kLeastSteadySteps,
                     kLeastSamples);
}

bool compiled_late(const Receipt& receipt) {
  return receipt.counters.steady && receipt.counters.steady->programs_made > 0;
}

std::string late_sentence(const Receipt& receipt) {
  const int64_t made = receipt.counters.steady->programs_made;
  return fmt::format("{} {} compiled or loaded after the warm-up.", base::counted(made, "program"),
                     made == 1 ? "was" : "were");
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
  return fmt::format("The host waited for devices {} in the steady window.",
                     base::counted(receipt.counters.steady->host_syncs, "time"));
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
  return fmt::format("Cores of the machine were slowed down {} while it ran.",
                     base::counted(*receipt.counters.throttled, "time"));
}

}  // namespace

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
      {"program not known", is_program_unknown, unknown_sentence, "run it again with this version"},
      {"ended early", ended_early, early_sentence, "let it make all its steps, or ask for fewer with train.steps"},
      {"too few steps", has_too_few, few_sentence, "run it with more train.steps, or log more often (train.log_every)"},
      {"compile after warm-up", compiled_late, late_sentence,
       "run it again: programs that are in the cache by now are loaded before the warm-up ends"},
      {"fallback", fell_back, fallback_sentence,
       "take a backend or settings with a kernel for these ops: megacpp explain RECIPE --features"},
      {"host sync", waited, sync_sentence, "leave out what makes the host wait between logs"},
      {"unstable spread", spreads, spread_sentence, "run it again with nothing else on the machine"},
      {"clocks throttled", was_throttled, throttled_sentence, "let the machine cool down, or lower its load"}};
  return rules;
}

std::string_view next_step(const Reason& reason) {
  const auto rule = std::ranges::find(all_rules(), reason.name, &Rule::name);
  return rule == all_rules().end() ? "" : rule->next;
}

Verdict verdict_of(const Receipt& receipt) {
  Verdict verdict;
  for (const Rule& rule : all_rules())
    if (rule.holds(receipt))
      verdict.reasons.push_back({.name = std::string(rule.name), .sentence = rule.sentence(receipt)});
  return verdict;
}

}  // namespace megacpp::receipt
