// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/evidence/compare/repeats.h"
#include "megacpp/evidence/receipt/steps.h"
#include "megacpp/evidence/receipt/verdict.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::compare {
namespace {

using receipt::Receipt;

std::vector<std::string> names_of(Receipts side) {
  std::vector<std::string> names;
  for (const Receipt& receipt : side) names.push_back(receipt.run);
  return names;
}

// Seconds a token.
stats::Side samples_of(Receipts side) {
  stats::Side samples;
  for (const Receipt& receipt : side) {
    const auto tokens = static_cast<double>(std::max<int64_t>(receipt.header.batch.tokens, 1));
    stats::Series run;
    for (const double seconds : receipt.times.samples.seconds) run.push_back(seconds / tokens);
    samples.push_back(std::move(run));
  }
  return samples;
}

bool has_times(const Receipt& receipt) {
  return receipt.times.steady && receipt.times.steady->steps > 0 && !receipt.times.samples.seconds.empty() &&
         std::ranges::all_of(receipt.times.samples.seconds, [](double seconds) { return seconds > 0; });
}

void add_objections(Receipts side, std::vector<Objection>& objections) {
  if (each_once({side.begin(), side.end()}).size() < side.size())
    objections.push_back(
        {side.front().run, "A run stands twice on its side: none repeats itself.", "name each run once"});
  for (const Receipt& receipt : side) {
    for (const receipt::Reason& reason : receipt.verdict.reasons)
      objections.push_back({receipt.run, reason.sentence, std::string(receipt::next_step(reason))});
    if (receipt.verdict.is_comparable() && !has_times(receipt))
      objections.push_back({receipt.run, "It has no steady steps that were timed.", "run it again with more steps"});
  }
}

void add_differences_among(Receipts side, std::vector<Change>& changes) {
  for (const Receipt& receipt : side.subspan(1))
    for (const Change& axis : differences_of(side.front(), receipt).axes) changes.push_back(axis);
}

int64_t steps_for(Receipts side, size_t values) {
  int64_t most = 0;
  for (const Receipt& receipt : side) {
    const int64_t each = std::max<int64_t>(receipt.times.samples.steps_each, 1);
    // The steady window begins and ends at a log: up to a sample less a step is lost at either end.
    const int64_t steady = static_cast<int64_t>(values) * each + 2 * (each - 1);
    most = std::max(most, receipt.ending.first_step + receipt::steps_with_steady(steady));
  }
  return most;
}

std::string shape_text(const receipt::Header& header) {
  const receipt::BatchShape& batch = header.batch;
  return fmt::format("{} x {} tokens a micro-step, {} of them, of {}{} on {}", batch.batch, batch.sequence,
                     batch.micro_steps, header.model.name, header.model.hash.empty() ? "" : " " + header.model.hash,
                     header.hardware.name);
}

std::string joined(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) text += (text.empty() ? "" : "; ") + to_text(change);
  return text;
}

std::string more_or_less(double ratio) {
  return fmt::format("{:.1f} % {} time a token", 100 * std::abs(ratio - 1), ratio > 1 ? "more" : "less");
}

// What to do where several things differ. Only a recipe key can be swept.
std::string untangling(const std::vector<Change>& axes) {
  const auto key =
      std::ranges::find_if(axes, [](const Change& axis) { return recipe::find_key(axis.name) != nullptr; });
  const std::string again = "run one of them again with only one of these changed";
  return key == axes.end() ? again : again + ", or: megacpp sweep RECIPE --axis " + key->name + "=...";
}

std::string length_text(const Comparison& comparison) {
  const size_t runs = comparison.effect ? comparison.effect->recommended_runs : 1;
  std::string text = fmt::format("a change of {:.0f} % is found nine times in ten with {}", 100 * stats::kSoughtChange,
                                 base::counted(comparison.recommended_steps, "step"));
  return runs > 1 ? text + fmt::format(" in each of {} runs a side", runs) : text;
}

}  // namespace

Comparison compare(Receipts baseline, Receipts other, double confidence) {
  Comparison comparison{.baseline_runs = names_of(baseline), .other_runs = names_of(other)};
  comparison.baseline_family = baseline.front().header.model.family;
  comparison.other_family = other.front().header.model.family;
  comparison.shape = shape_text(baseline.front().header);
  comparison.differences = differences_of(baseline.front(), other.front());
  add_differences_among(baseline, comparison.among_repeats);
  add_differences_among(other, comparison.among_repeats);
  add_objections(baseline, comparison.objections);
  add_objections(other, comparison.objections);
  if (!std::ranges::all_of(baseline, has_times) || !std::ranges::all_of(other, has_times)) return comparison;
  stats::Effect effect = stats::compare(samples_of(baseline), samples_of(other), confidence);
  comparison.recommended_steps =
      std::max(steps_for(baseline, effect.recommended_values), steps_for(other, effect.recommended_values));
  if (comparison.is_confounded() || !comparison.objections.empty()) return comparison;
  comparison.baseline_tokens_per_second = 1 / effect.baseline;
  comparison.other_tokens_per_second = 1 / effect.other;
  comparison.effect = std::move(effect);
  comparison.time = time_moves(baseline, other);
  // Its means have the stalls in them that the effect leaves out: what goes the other way explains nothing.
  if ((comparison.time->change() > 0) != (comparison.effect->ratio > 1)) comparison.time->cause.reset();
  comparison.memory = memory_moves(baseline.front().memory, other.front().memory);
  return comparison;
}

void require_result(const Comparison& comparison) {
  const Differences& differences = comparison.differences;
  const std::string where = comparison.baseline_runs.front() + " against " + comparison.other_runs.front();
  MEGACPP_REQUIRE(!differences.has_other_family, E4001,
                  {.where = where,
                   .got = fmt::format("models of different families, {} and {}", comparison.baseline_family,
                                      comparison.other_family),
                   .wanted = "two dense, two sparse or two hybrid models: these are never ranked together",
                   .next = "compare each with a run of its own family"});
  MEGACPP_REQUIRE(differences.axes.size() <= 1, E4001,
                  {.where = where,
                   .got = fmt::format("{} differences: {}", differences.axes.size(), joined(differences.axes)),
                   .wanted = "one, so that what is found has one cause",
                   .next = untangling(differences.axes)});
  MEGACPP_REQUIRE(comparison.among_repeats.empty(), E4001,
                  {.where = where,
                   .got = "runs of one side differ: " + joined(comparison.among_repeats),
                   .wanted = "repeats of one launch on each side",
                   .next = "compare runs that are alike"});
  MEGACPP_REQUIRE(comparison.objections.empty(), E4002,
                  {.where = comparison.objections.front().run,
                   .got = comparison.objections.front().sentence,
                   .wanted = "runs that ended well and were steady",
                   .next = comparison.objections.front().next});
  const bool is_too_short = comparison.effect->finding == stats::Finding::too_short;
  MEGACPP_REQUIRE(!is_too_short, E4002,
                  {.where = where,
                   .got = comparison.effect->too_short,
                   .wanted = "runs that are long enough to tell them apart",
                   .next = fmt::format("run both again with train.steps={}: {}", comparison.recommended_steps,
                                       length_text(comparison))});
}

std::string verdict_text(const Comparison& comparison) {
  MEGACPP_CHECK(comparison.effect.has_value()) << "there is no result";
  const stats::Effect& effect = *comparison.effect;
  const std::string range = effect.high
                                ? fmt::format("{:+.1f} % to {:+.1f} % time a token at {:.3g} % confidence",
                                              100 * (effect.low - 1), 100 * (*effect.high - 1), 100 * effect.confidence)
                                : "no interval";
  switch (effect.finding) {
    case stats::Finding::too_short:
      return fmt::format("too short to say: {}; {}", effect.too_short, length_text(comparison));
    case stats::Finding::no_difference:
      return fmt::format("no difference found ({}); {}", range, length_text(comparison));
    case stats::Finding::lower:
    case stats::Finding::higher:
      return fmt::format("{} takes {} than {} ({})", comparison.other_runs.front(), more_or_less(effect.ratio),
                         comparison.baseline_runs.front(), range);
  }
  return "";
}

}  // namespace megacpp::compare
