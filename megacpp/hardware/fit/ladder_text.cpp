// SPDX-License-Identifier: Apache-2.0
// The ladder in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::fit {
namespace {

using memory::human_bytes;

/// As its policy has it, where the recipe leaves it open.
std::string value_in(recipe::Recipe recipe, const std::string& path) {
  recipe.layout.zero = plan::zero_level(recipe.layout);
  for (const char letter : recipe::recompute_letters(recipe.model))
    if (path == recipe::recompute_key(letter))
      return std::string(base::text_of(recipe::recompute_level(recipe, letter)));
  const recipe::Key* const key = recipe::find_key(path);
  MEGACPP_CHECK(key != nullptr) << "no rung changes " << path;
  return recipe::value_text(recipe::member_of(*key, recipe));
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::close:
      return "close";
    case Verdict::not_enough:
      return "not enough";
    case Verdict::skipped:
      return "skipped";
    case Verdict::refused:
      return "refused";
  }
  return "";
}

std::string to_text(const plan::Changes& changes) {
  return fmt::format("{}", fmt::join(plan::overrides_of(changes), " "));
}

std::string to_text(const Attempt& attempt) {
  std::string text = fmt::format("rung {} {:<10} {:<11}", attempt.rung, attempt.name, verdict_name(attempt.verdict));
  if (!attempt.changes.empty()) text += " " + to_text(attempt.changes);
  if (attempt.needed > 0) text += ": " + human_bytes(attempt.needed);
  if (attempt.needed > 0 && attempt.limit) text += " of " + human_bytes(*attempt.limit);
  if (!attempt.reason.empty()) text += (attempt.changes.empty() ? " " : "; ") + attempt.reason;
  const bool is_taken = attempt.verdict == Verdict::fits || attempt.verdict == Verdict::close;
  if (attempt.changes_experiment && is_taken) text += "; this is another experiment";
  return text;
}

std::string to_text(const LadderPath& path) {
  std::string text;
  for (const Attempt& attempt : path.attempts) text += "  " + to_text(attempt) + "\n";
  if (path.found) return text;
  return text + fmt::format("  rung {} stop       {}\n", path.rung, end_text(path));
}

std::string end_text(const LadderPath& path) {
  return fmt::format(
      "nothing fits; the least is {}, {}, which runs where a chip has {} bytes", human_bytes(path.least_needed),
      path.least_changes.empty() ? "as requested" : "with " + to_text(path.least_changes), path.least_needed);
}

memory::OutOfMemory offering_least(const memory::OutOfMemory& misfit, const recipe::Recipe& requested,
                                   const LadderPath& path) {
  // Chips that share a machine have no limit of their own to be given.
  if (path.least_changes.empty() || misfit.facts().cls == memory::OomClass::host) return misfit;
  base::Problem problem = misfit.problem();
  problem.next =
      fmt::format("where a chip may use {}, run with {}, the least that the ladder leads to; else {}",
                  memory::exact_bytes(path.least_needed), changed_text(requested, path.least_changes), problem.next);
  return {misfit.code(), std::move(problem), misfit.facts()};
}

std::string changed_text(const recipe::Recipe& requested, const plan::Changes& changes) {
  std::vector<std::string> texts;
  for (const plan::Change& change : changes)
    texts.push_back(fmt::format("{}={} (was {})", change.key, change.value, value_in(requested, change.key)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace megacpp::fit
