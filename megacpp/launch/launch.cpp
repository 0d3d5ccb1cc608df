// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/launch.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/base/utc_time.h"
#include "megacpp/fit/lane.h"
#include "megacpp/fit/misfit.h"
#include "megacpp/fit/signature.h"
#include "megacpp/ir/chip_name.h"
#include "megacpp/launch/assumptions.h"
#include "megacpp/launch/chip_memory.h"
#include "megacpp/launch/remember.h"
#include "megacpp/memory/report.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/cpu/host_rates.h"
#include "megacpp/runtime/plugins/plugin_places.h"

namespace megacpp::launch {

namespace plugins = runtime::plugins;

namespace {

using memory::human_bytes;

// What the devices of a plugin hold is known to the plugin alone.
constexpr int64_t kUnknownMemory = int64_t{1} << 60;

// Nothing for our own backend and for XLA's CPU devices: these are this machine.
std::optional<plugins::PluginKind> plugin_with_own_devices(const recipe::Recipe& recipe) {
  if (recipe.backend != "xla") return std::nullopt;
  const plugins::PluginKind kind = plugins::choose_plugin(recipe.xla.plugin).kind;
  return kind == plugins::PluginKind::cpu ? std::nullopt : std::optional(kind);
}

// On the devices of a plugin hardware.target; without one nothing is known of them but how many there are.
hw::Slice slice_for(const recipe::Recipe& recipe) {
  const auto plugin = plugin_with_own_devices(recipe);
  if (plugin && !recipe.hardware.target.empty()) return slice_named(recipe.hardware.target);
  const std::string count = ":" + std::to_string(recipe::chips_of(recipe.layout));
  hw::HostRates rates = runtime::cpu::host_rates();
  rates.memory = plugin ? kUnknownMemory : std::min(rates.memory, runtime::cpu::available_memory_bytes());
  hw::Slice slice = hw::parse_target("host" + count, {.host_rates = [&] { return rates; }});
  if (plugin) {
    slice.chip.name = plugins::info_of(*plugin).name;
    slice.name = slice.chip.name + count;
  }
  return slice;
}

// An injected fault fires once: what it rehearses is one failure and the answer to it.
recipe::Recipe without_fault(recipe::Recipe recipe, const memory::OomFacts& facts) {
  if (!facts.is_injected) return recipe;
  std::erase_if(recipe.hardware.fail_allocation, [&](const std::string& text) {
    const auto fault = recipe::parse_fail_allocation(text);
    return fault && fault->chip == facts.chip;
  });
  return recipe;
}

std::vector<catalog::Setting> settings_of(const plan::Changes& changes) {
  std::vector<catalog::Setting> settings;
  for (const plan::Change& change : changes) settings.emplace_back(change.key, change.value);
  return settings;
}

}  // namespace

Launch::Launch(recipe::Recipe asked, const CatalogChoice& catalog)
    : asked_(std::move(asked)),
      catalog_(catalog, catalog::Access::write),
      assumptions_(assumptions_for(asked_, slice_for(asked_), catalog_)) {}

fit::Estimate Launch::make_estimate(const recipe::Recipe& recipe) const {
  fit::Estimate estimate = fit::make_estimate(recipe, assumptions_);
  const bool is_unknown = plugin_with_own_devices(recipe) && recipe.hardware.target.empty();
  if (is_unknown) estimate.time = {};  // this machine's rates say nothing about them
  return estimate;
}

fit::LadderPath Launch::walk_ladder(const fit::Ceiling& ceiling) const {
  return fit::walk_ladder(
      *estimate_, [this](const recipe::Recipe& recipe) { return make_estimate(recipe); }, ceiling);
}

void Launch::start_where_remembered() {
  std::optional<catalog::Remembered> known;
  catalog_.use([&](const catalog::Catalog& catalog) { known = catalog.remembered(asked_signature_); });
  if (!known || !known->start) return;
  // What was too much on paper alone is asked of paper again: the machine may have more memory free today.
  const bool failed_by_estimate = known->last && known->last->stage == fit::kPlanningStage;
  if (failed_by_estimate && estimate_->fit.fits()) return;
  plan::Changes changes;
  for (const auto& [key, value] : known->start->settings) changes.push_back({key, value});
  const std::string ran = fmt::format("as asked this did not fit on {}; it ran at rung {} with {}",
                                      known->start->at.substr(0, 10), known->start->rung, fit::to_text(changes));
  if (!fit::offers(asked_.ladder, changes)) {
    fmt::print(stderr, "catalog    {}, which ladder.rungs does not offer now\n", ran);
    return;
  }
  fmt::print(stderr, "catalog    {}: starting there\n", ran);
  changes_ = std::move(changes);
  rung_ = static_cast<size_t>(known->start->rung);
  estimate_ = make_estimate(fit::with_changes(asked_, changes_));
  say_if_other_experiment();
}

void Launch::say_if_other_experiment() const {
  if (changes_experiment())
    fmt::print(
        stderr,
        "ladder     NOTE: the sequence is shorter than asked for: losses of this run are another experiment's\n");
}

void Launch::prepare() {
  estimate_ = make_estimate(asked_);
  asked_signature_ = fit::signature_of(estimate_->recipe, assumptions_.slice.name);
  start_where_remembered();
  if (estimate_->fit.fits()) return;
  const memory::OutOfMemory misfit = fit::misfit_error(*estimate_);
  const fit::ChipGroup& worst = estimate_->fit.worst();
  fmt::print(stderr, "ladder     {} needs {} of {}: going down, every rung on paper first\n", worst.place,
             human_bytes(worst.needed()), human_bytes(worst.limit));
  record_failure(misfit);
  fit::LadderPath down = walk_ladder();
  if (!down.found) give_up(down, misfit);
  take(std::move(down));
}

void Launch::take(fit::LadderPath path) {
  fmt::print(stderr, "{}", fit::to_text(path));
  for (const fit::Attempt& attempt : path.attempts) reasons_.push_back(fit::to_text(attempt));
  changes_ = plan::merged(std::move(changes_), path.changes);
  rung_ = std::max(rung_, path.rung);
  estimate_ = std::move(path.found);
  say_if_other_experiment();
}

void Launch::step_down(const memory::OutOfMemory& failure) {
  const std::string& place = failure.facts().place;  // a compiler speaks of no chip
  fmt::print(stderr, "ladder     {} ran out of memory ({}): all chips go down together\n",
             place.empty() ? recipe().name : place, memory::oom_class_name(failure.facts().cls));
  asked_ = without_fault(asked_, failure.facts());
  estimate_->recipe = without_fault(estimate_->recipe, failure.facts());
  fit::LadderPath down = walk_ladder(fit::ceiling_below(estimate_->fit.worst().needed(), failure.facts()));
  if (!down.found) give_up(down, failure);
  take(std::move(down));
}

void Launch::give_up(const fit::LadderPath& path, const memory::OutOfMemory& failure) {
  fmt::print(stderr, "{}", fit::to_text(path));
  const std::string least =
      fmt::format("the least found is {} bytes {}", path.least_needed, fit::to_text(path.least_changes));
  catalog_.use(
      [&](catalog::Catalog& catalog) { remember_failure(catalog, *estimate_, path.rung, failure.facts(), least); });
  throw memory::OutOfMemory(failure);
}

void Launch::record_failure(const memory::OutOfMemory& failure) {
  catalog_.use([&](catalog::Catalog& catalog) { remember_failure(catalog, *estimate_, rung_, failure.facts()); });
}

void Launch::record_success(const runtime::Executable& run, std::optional<double> step_seconds) {
  const ChipReport worst = worst_first(run).front();
  Measured measured{.stage = "run",
                    .chip = ir::chip_name(worst.chip, estimate_->compiled.mesh),
                    .plan = &estimate_->compiled.programs_of(worst.chip).memory,
                    .step_seconds = step_seconds};
  measured.bytes = worst.memory.measured_peak_bytes;
  catalog_.use([&](catalog::Catalog& catalog) {
    remember_measured(catalog, *estimate_, fit::lane_name(assumptions_.slice, asked_.backend), rung_, measured);
    if (reasons_.empty()) return;  // nothing new about where to start
    catalog.remember_start(asked_signature_, {.at = base::utc_now(),
                                              .rung = static_cast<int64_t>(rung_),
                                              .settings = settings_of(changes_),
                                              .reasons = reasons_});
  });
}

}  // namespace megacpp::launch
