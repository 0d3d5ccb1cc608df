// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/remember.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/utc_time.h"
#include "megacpp/fit/signature.h"
#include "megacpp/memory/report.h"

namespace megacpp::launch {
namespace {

using memory::human_bytes;

/// The prediction of the worst chip, to be completed by how it went.
catalog::Outcome predicted_outcome(const fit::Estimate& estimate, size_t rung) {
  const fit::ChipGroup& worst = estimate.fit.worst();
  const double seconds = estimate.time.seconds();
  return {.signature = fit::signature_of(estimate.recipe, estimate.fit.hardware),
          .at = base::utc_now(),
          .rung = static_cast<int64_t>(rung),
          .chip = worst.place,
          .predicted_bytes = worst.needed(),
          .limit_bytes = worst.limit,
          .predicted_seconds = seconds > 0 ? std::optional(seconds) : std::nullopt};
}

std::string contents_of(const memory::OomFacts& facts) {
  constexpr size_t kPieces = 3;
  std::vector<std::string> words;
  for (const memory::RoleBytes& role : facts.roles)
    words.push_back(fmt::format("{} {}", ir::role_name(role.role), human_bytes(role.bytes)));
  for (size_t i = 0; i < std::min(kPieces, facts.largest.size()); ++i)
    words.push_back(
        fmt::format("{}{} {}", i == 0 ? "largest " : "", human_bytes(facts.largest[i].bytes), facts.largest[i].what));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

void remember_measured(catalog::Catalog& catalog, const fit::Estimate& estimate, const std::string& lane, size_t rung,
                       const Measured& measured) {
  catalog::Outcome outcome = predicted_outcome(estimate, rung);
  outcome.stage = measured.stage;
  if (!measured.chip.empty()) outcome.chip = measured.chip;
  outcome.measured_bytes = measured.bytes;
  outcome.measured_seconds = measured.step_seconds;
  catalog.record(outcome);
  const auto sample = [&](const char* quantity, std::vector<catalog::Part> parts, double value) {
    catalog.record_calibration({.signature = outcome.signature,
                                .at = outcome.at,
                                .lane = lane,
                                .quantity = quantity,
                                .parts = std::move(parts),
                                .measured = value});
  };
  if (measured.bytes && measured.plan != nullptr)
    sample(catalog::kPeakBytes, fit::parts_of(*measured.plan), static_cast<double>(*measured.bytes));
  if (measured.step_seconds && *measured.step_seconds > 0 && estimate.time.seconds() > 0)
    sample(catalog::kStepSeconds, fit::parts_of(estimate.time), *measured.step_seconds);
}

void remember_failure(catalog::Catalog& catalog, const fit::Estimate& estimate, size_t rung,
                      const memory::OomFacts& facts, const std::string& note) {
  catalog::Outcome outcome = predicted_outcome(estimate, rung);
  outcome.ending = catalog::Ending::fails;
  outcome.oom_class = memory::oom_class_name(facts.cls);
  outcome.stage = facts.step >= 0 ? fmt::format("run step {}", facts.step) : facts.stage;
  if (!facts.place.empty()) outcome.chip = facts.place;
  if (facts.limit) outcome.limit_bytes = facts.limit;
  // Only a compiler has measured the whole program; plans and faults have measured nothing.
  if (facts.cls == memory::OomClass::compile && !facts.text.empty()) outcome.measured_bytes = facts.wanted;
  std::vector<std::string> notes;
  for (const std::string& part : {std::string(facts.is_injected ? "an injected fault" : ""), note, contents_of(facts)})
    if (!part.empty()) notes.push_back(part);
  outcome.note = fmt::format("{}", fmt::join(notes, "; "));
  catalog.record(outcome);
}

}  // namespace megacpp::launch
