// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/launch.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/base/utc_time.h"
#include "megacpp/catalog/location.h"
#include "megacpp/cli/backend.h"
#include "megacpp/cli/chip_memory.h"
#include "megacpp/fit/signature.h"
#include "megacpp/hw/slice.h"
#include "megacpp/ir/chip_name.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/memory/report.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/cpu/host_rates.h"

namespace megacpp::cli {
namespace {

using memory::human_bytes;

// Peaks are predicted alike on one lane.
std::string lane_of(const recipe::Recipe& recipe) {
  return recipe.backend == "xla" ? "xla " + recipe.xla.plugin : "cpu host";
}

catalog::Signature signature_of(const recipe::Recipe& recipe) {
  std::string hardware = fmt::format("host:{}", recipe::chips_of(recipe.layout));
  if (recipe.backend == "xla") hardware += " xla " + recipe.xla.plugin;
  if (recipe.hardware.limit.bytes > 0) hardware += " limit " + recipe::to_string(recipe.hardware.limit);
  for (const std::string& limit : recipe.hardware.limits) hardware += " chip " + limit;
  for (const std::string& drill : recipe.hardware.fail_allocation) hardware += " drill " + drill;
  return fit::signature_of(recipe, hardware);
}

// This machine, with the memory that is free now.
hw::Slice this_machine(int64_t chips) {
  const auto rates = [] {
    hw::HostRates measured = runtime::cpu::host_rates();
    measured.memory = std::min(measured.memory, runtime::cpu::available_memory_bytes());
    return measured;
  };
  return hw::parse_target("host:" + std::to_string(chips), {.host_rates = rates});
}

// A drill fires once: what it rehearses is one failure and the answer to it.
recipe::Recipe without_drill(recipe::Recipe recipe, const memory::OomFacts& facts) {
  if (!facts.is_drill) return recipe;
  std::erase_if(recipe.hardware.fail_allocation, [&](const std::string& text) {
    const auto drill = recipe::parse_fail_allocation(text);
    return drill && drill->chip == facts.chip;
  });
  return recipe;
}

// Less than what failed. Where the backend says what it wanted and had, our own number is scaled by how far it was off.
fit::Ceiling ceiling_below(int64_t needed, const memory::OomFacts& facts) {
  if (!facts.wanted || !facts.limit || *facts.wanted <= *facts.limit || facts.is_drill) return {needed};
  const double share = static_cast<double>(*facts.limit) / static_cast<double>(*facts.wanted);
  return {std::min(needed, static_cast<int64_t>(static_cast<double>(needed) * share))};
}

std::string stage_of(const memory::OomFacts& facts) {
  return facts.step >= 0 ? fmt::format("run step {}", facts.step) : facts.stage;
}

catalog::Outcome outcome_on_paper(const fit::OnPaper& paper, size_t rung) {
  const fit::ChipGroup& worst = paper.fit.worst();
  return {.signature = signature_of(paper.recipe),
          .at = base::utc_now(),
          .rung = static_cast<int64_t>(rung),
          .chip = worst.place,
          .predicted_bytes = worst.needed(),
          .limit_bytes = worst.limit,
          .predicted_seconds = paper.time.seconds()};
}

}  // namespace

Launch::Launch(recipe::Recipe asked, bool use_catalog)
    : asked_(std::move(asked)), asked_signature_(signature_of(asked_)) {
  if (!use_catalog) return;
  catalog::MaybeCatalog opened;
  try {
    opened = catalog::Catalog::open_or_none(catalog::default_path());
  } catch (const base::Error& error) {
    opened.why_not = error;
  }
  catalog_ = std::move(opened.catalog);
  if (opened.why_not)
    fmt::print(stderr, "catalog    not used: {}, {}\n", opened.why_not->problem().where, opened.why_not->problem().got);
}

fit::OnPaper Launch::on_paper(const recipe::Recipe& recipe) const {
  const int64_t chips = recipe::chips_of(recipe.layout);
  const int threads = std::max<int>(1, threads_for(recipe) / static_cast<int>(chips));
  return fit::plan_on_paper(recipe, {.slice = this_machine(chips),
                                     .kernels = runtime::cpu::cpu_target(threads),
                                     .limits = recipe::chip_limits(recipe.hardware, chips)});
}

void Launch::start_where_remembered() {
  if (!catalog_) return;
  const auto known = catalog_->remembered(asked_signature_);
  if (!known || !known->start) return;
  for (const auto& [key, value] : known->start->settings) changes_.push_back({key, value});
  rung_ = static_cast<size_t>(known->start->rung);
  fmt::print(stderr, "catalog    as asked this did not fit on {}; it ran at rung {} with {}: starting there\n",
             known->start->at.substr(0, 10), rung_, fit::to_text(changes_));
}

void Launch::prepare() {
  start_where_remembered();
  paper_ = on_paper(fit::with_changes(asked_, changes_));
  const fit::ChipGroup& worst = paper_->fit.worst();
  if (paper_->fit.fits()) return;
  fmt::print(stderr, "ladder     {} needs {} of {}: going down, every rung on paper first\n", worst.place,
             human_bytes(worst.needed()), human_bytes(worst.limit));
  write_down([&](catalog::Catalog& catalog) {
    catalog::Outcome outcome = outcome_on_paper(*paper_, rung_);
    outcome.ending = catalog::Ending::fails;
    outcome.oom_class = "compile";
    outcome.stage = "plan";
    catalog.record(outcome);
  });
  fit::Climb climb = fit::climb(*paper_, [this](const recipe::Recipe& recipe) { return on_paper(recipe); });
  if (!climb.found) give_up(climb, nullptr);
  take(std::move(climb));
}

void Launch::take(fit::Climb climb) {
  fmt::print(stderr, "{}", fit::to_text(climb));
  for (const fit::Attempt& attempt : climb.attempts)
    reasons_.push_back(fmt::format("{} {}: {}", attempt.name, fit::verdict_name(attempt.verdict), attempt.reason));
  for (const plan::Change& change : climb.changes) {
    const auto same = std::ranges::find(changes_, change.key, &plan::Change::key);
    same == changes_.end() ? changes_.push_back(change) : void(same->value = change.value);
  }
  changes_experiment_ |= climb.changes_experiment;
  rung_ = std::max(rung_, climb.rung);
  paper_ = std::move(climb.found);
  if (climb.changes_experiment)
    fmt::print(
        stderr,
        "ladder     NOTE: the sequence is shorter than asked for: losses of this run are another experiment's\n");
}

void Launch::climb_down(const memory::OutOfMemory& failure) {
  fmt::print(stderr, "ladder     {} ran out of memory ({}): all chips go down together\n", failure.facts().place,
             memory::oom_class_name(failure.facts().cls));
  asked_ = without_drill(asked_, failure.facts());
  paper_->recipe = without_drill(paper_->recipe, failure.facts());
  fit::Climb climb = fit::climb(
      *paper_, [this](const recipe::Recipe& recipe) { return on_paper(recipe); },
      ceiling_below(paper_->fit.worst().needed(), failure.facts()));
  if (!climb.found) give_up(climb, &failure);
  take(std::move(climb));
}

void Launch::give_up(const fit::Climb& climb, const memory::OutOfMemory* failure) {
  fmt::print(stderr, "{}", fit::to_text(climb));
  write_down([&](catalog::Catalog& catalog) {
    catalog::Outcome outcome = outcome_on_paper(*paper_, climb.rung);
    outcome.ending = catalog::Ending::fails;
    outcome.oom_class = "compile";
    outcome.stage = "ladder";
    outcome.note = fmt::format("the least found is {} bytes {}", climb.least_needed, fit::to_text(climb.least_changes));
    catalog.record(outcome);
  });
  if (failure) throw memory::OutOfMemory(*failure);
  const memory::FitCheck check = runtime::cpu::check_fit(
      paper_->compiled, recipe::chip_limits(paper_->recipe.hardware, paper_->compiled.mesh.chips()));
  MEGACPP_CHECK(check.misfit.has_value()) << "the ladder was climbed for a plan that fits";
  throw memory::misfit_error(check, paper_->compiled.mesh, runtime::host_name());
}

template <typename Write>
void Launch::write_down(const Write& write) {
  if (!catalog_) return;
  try {
    write(*catalog_);
  } catch (const base::Error& error) {
    fmt::print(stderr, "catalog    not written: {}\n", error.problem().got);
    catalog_.reset();
  }
}

void Launch::record_failure(const memory::OutOfMemory& failure) {
  write_down([&](catalog::Catalog& catalog) {
    catalog::Outcome outcome = outcome_on_paper(*paper_, rung_);
    outcome.ending = catalog::Ending::fails;
    outcome.oom_class = memory::oom_class_name(failure.facts().cls);
    outcome.stage = stage_of(failure.facts());
    outcome.chip = failure.facts().place;
    if (failure.facts().cls == memory::OomClass::compile) outcome.measured_bytes = failure.facts().wanted;
    if (failure.facts().is_drill) outcome.note = "a drill";
    catalog.record(outcome);
  });
}

void Launch::record_success(const runtime::Executable& run, std::optional<double> step_seconds) {
  const ChipReport worst = worst_first(run).front();
  write_down([&](catalog::Catalog& catalog) {
    catalog::Outcome outcome = outcome_on_paper(*paper_, rung_);
    outcome.stage = "run";
    outcome.chip = ir::chip_name(worst.chip, paper_->compiled.mesh);
    if (worst.memory.measured_peak_bytes > 0) outcome.measured_bytes = worst.memory.measured_peak_bytes;
    outcome.measured_seconds = step_seconds;
    catalog.record(outcome);
    const auto sample = [&](const char* quantity, std::vector<catalog::Part> parts, double measured) {
      catalog.record_calibration({.signature = outcome.signature,
                                  .at = outcome.at,
                                  .lane = lane_of(paper_->recipe),
                                  .quantity = quantity,
                                  .parts = std::move(parts),
                                  .measured = measured});
    };
    if (outcome.measured_bytes)
      sample(catalog::kPeakBytes, fit::parts_of(paper_->compiled.programs_of(worst.chip).memory),
             static_cast<double>(*outcome.measured_bytes));
    if (step_seconds && *step_seconds > 0) sample(catalog::kStepSeconds, fit::parts_of(paper_->time), *step_seconds);
    if (changes_.empty()) return;
    catalog::Start start{.at = outcome.at, .rung = static_cast<int64_t>(rung_), .settings = {}, .reasons = reasons_};
    for (const plan::Change& change : changes_) start.settings.emplace_back(change.key, change.value);
    catalog.remember_start(asked_signature_, start);
  });
}

}  // namespace megacpp::cli
