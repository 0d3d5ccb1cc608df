// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/launch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/utc_time.h"
#include "megacpp/hardware/fit/misfit.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/injected_faults.h"
#include "megacpp/run/launch/oom_report.h"
#include "megacpp/run/launch/remember.h"
#include "megacpp/run/launch/run_inputs.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/lineage/check.h"

namespace megacpp::launch {

namespace {

using memory::human_bytes;

// Of all hosts, on one.
int64_t most_processes(const std::vector<RunHost>& hosts) {
  int64_t most = 0;
  for (const RunHost& host : hosts) most = std::max(most, std::ssize(host.processes));
  return most;
}

// Made of nothing that one process sees alone: all must come to the same plan. Rates and the name of devices are those
// of the coordinator's machine, the least free memory of all counts, and so do the fewest threads of a chip.
runtime::Machine agreed_machine(const recipe::Recipe& recipe, const runtime::Backend& backend, Agreement& agreement,
                                const std::vector<RunHost>& hosts, const Log& log) {
  const FreeMemory memory = agreement.free_memory();
  if (!memory.uneven.empty())
    log({.topic = "memory", .text = memory.uneven + " free: the plan is for the least of all"});
  runtime::Machine machine{.free_bytes = memory.least,
                           .local_chips = agreement.local_chips() * most_processes(hosts),
                           .rates = [&backend, &agreement] {
                             return rates_of(agreement.from_coordinator(
                                 "rates of the machine", [&] { return rates_text(backend.host_rates.kept()); }));
                           }};
  if (backend.device_name)
    machine.device_name =
        agreement.from_coordinator("name of devices", [&] { return backend.device_name(recipe::run_request(recipe)); });
  return machine;
}

runtime::TargetMesh agreed_mesh(const recipe::Recipe& recipe, Agreement& agreement) {
  const int all = recipe.train.threads > 0 ? static_cast<int>(recipe.train.threads) : agreement.core_share();
  const int threads = runtime::threads_per_chip(all, agreement.local_chips());
  return {.chips = recipe::chips_of(recipe.layout),
          .threads = static_cast<int>(agreement.least(runtime::kThreadsOfAChip, threads)),
          .local_chips = agreement.local_chips(),
          .transport = agreement.transport()};
}

// What an earlier failure led planning to is decided anew by a later one.
plan::Changes without_decisions_of(const fit::Estimate& estimate, plan::Changes changes) {
  std::erase_if(changes, [&estimate](const plan::Change& change) {
    if (change.key == recipe::kLoopsKey) return estimate.loops.has_value();
    return std::ranges::any_of(estimate.recompute, [&change](const fit::RecomputeChoice& choice) {
      return change.key == recipe::recompute_key(choice.letter);
    });
  });
  return changes;
}

std::vector<catalog::Setting> settings_of(const plan::Changes& changes) {
  std::vector<catalog::Setting> settings;
  for (const plan::Change& change : changes) settings.emplace_back(change.key, change.value);
  return settings;
}

std::vector<std::string> reasons_of(const std::vector<fit::Attempt>& attempts) {
  std::vector<std::string> reasons;
  for (const fit::Attempt& attempt : attempts) reasons.push_back(fit::to_text(attempt));
  return reasons;
}

plan::Changes changes_of(const catalog::Start& start) {
  plan::Changes changes;
  for (const auto& [key, value] : start.settings) changes.push_back({key, value});
  return changes;
}

std::string started_text(const catalog::Remembered& known) {
  const std::string by =
      known.other_build ? " by another build or machine, " + catalog::to_text(*known.other_build) : "";
  return fmt::format("as requested this did not fit on {}{}; it ran at rung {} with {}", known.start->at.substr(0, 10),
                     by, known.start->rung, fit::to_text(changes_of(*known.start)));
}

// A reduction that was taken because it fits by estimate, and then failed when it ran.
void note_failure(std::vector<fit::Attempt>& attempts, const catalog::OomReport& failure) {
  if (attempts.empty() || failure.phase == fit::kPlanningPhase) return;
  std::string& reason = attempts.back().reason;
  reason += fmt::format("{}ran out of memory when run: {}", reason.empty() ? "" : "; ", failure.oom_class);
}

// What a process reads whose own memory sufficed.
base::Problem problem_elsewhere(const recipe::Recipe& recipe, const catalog::OomReport& report) {
  return {.where = recipe.name,
          .got = fmt::format("{} ran out of memory ({} {})", report.chip.empty() ? "another process" : report.chip,
                             report.code, report.oom_class),
          .wanted = "memory that suffices on every process",
          .next = "mend what the process of that chip reports",
          .cause = base::code_named(report.code)};
}

memory::OutOfMemory failure_elsewhere(const recipe::Recipe& recipe, const catalog::OomReport& report) {
  const memory::OomClass cls = memory::oom_class_named(report.oom_class);
  return {memory::code_of(cls),
          problem_elsewhere(recipe, report),
          {.cls = cls,
           .phase = report.phase,
           .place = report.chip,
           .step = report.step,
           .first_step = report.first_step,
           .wanted = report.wanted_bytes,
           .limit = report.limit_bytes}};  // injected there, if at all: no fault fired here
}

}  // namespace

Launch::Launch(recipe::Recipe requested, const CatalogChoice& catalog, Log log, ProcessOptions processes)
    : requested_(std::move(requested)),
      log_(std::move(log)),
      agreement_(requested_, std::move(processes)),
      catalog_(agreement_.together([&] {
        const CatalogChoice elsewhere{.none = true};
        return UsersCatalog(agreement_.is_coordinator() ? catalog : elsewhere, catalog::Access::write, log_);
      })),
      mesh_(agreement_.together([&] { return agreed_mesh(requested_, agreement_); })),
      assumptions_(agreement_.together([&] { return agreed_assumptions(); })) {}

fit::Assumptions Launch::agreed_assumptions() {
  const runtime::Backend& backend = runtime::backend_named(requested_.backend);
  const std::vector<RunHost> hosts = agreement_.hosts_of_run();
  runtime::FoundHardware hardware = backend.find_hardware(recipe::run_request(requested_),
                                                          agreed_machine(requested_, backend, agreement_, hosts, log_));
  if (!hardware.note.empty()) log_({"hardware", hardware.note});
  if (backend.visible_gpus && !agreement_.is_alone())
    hardware.sharers = agreement_.gpu_sharers(backend.visible_gpus(recipe::run_request(requested_)));
  if (hardware.sharers > 1)
    log_({"hardware", fmt::format("{} processes share a GPU and its memory", hardware.sharers)});
  fit::Assumptions assumptions = assumptions_for(requested_, std::move(hardware), catalog_, mesh_);
  agreement_.same_inputs(chip_fields(assumptions.slice.chip));
  assumptions.hosts = planned_hosts(hosts);
  const auto share = [&](const char* what, std::vector<catalog::Sample>& peaks) {
    peaks = fact_of<std::vector<catalog::Sample>>(agreement_.from_coordinator(what, [&] { return fact_text(peaks); }));
  };
  share("measured peaks", assumptions.peaks);
  if (assumptions.unrolled) share("measured peaks of unrolled blocks", assumptions.unrolled->peaks);
  // Whose samples are the own ones decides how bytes are corrected: the machine is the one that keeps the catalog.
  catalog::Build& build = assumptions.build;
  build.processor = agreement_.from_coordinator("processor", [&] { return build.processor; });
  build.threads = std::stoll(agreement_.from_coordinator("threads", [&] { return std::to_string(build.threads); }));
  return assumptions;
}

std::optional<catalog::Remembered> Launch::remembered_start() {
  std::optional<catalog::Remembered> known;
  catalog_.use([&](const catalog::Catalog& catalog) { known = catalog.remembered(requested_signature_); });
  if (!known || !known->start) return std::nullopt;
  // What failed by estimate alone is estimated again: the machine may have more memory free today. So is what another
  // build or plugin learnt, which may need another amount.
  // Close is no answer to a failure that was seen: there what ran is taken.
  const bool failed_by_estimate = known->last && known->last->phase == fit::kPlanningPhase;
  const bool is_judged_again = failed_by_estimate ? estimate_->fit.may_fit() : estimate_->fit.fits();
  if (!(failed_by_estimate || known->other_build) || !is_judged_again) return known;
  if (known->other_build)
    log_({"catalog", fmt::format("{}; by estimate it {} now: starting as requested", started_text(*known),
                                 estimate_->fit.fits() ? "fits" : "is close")});
  return std::nullopt;
}

void Launch::start_where_remembered() {
  const std::string start = agreement_.from_coordinator("remembered start", [&] {
    const std::optional<catalog::Remembered> known = remembered_start();
    return known ? fact_text(RememberedStart{.start = *known->start, .ran = started_text(*known)}) : "";
  });
  if (!start.empty()) take_remembered(fact_of<RememberedStart>(start));
}

void Launch::take_remembered(const RememberedStart& remembered) {
  const auto& [start, ran] = remembered;
  const plan::Changes changes = changes_of(start);
  if (!fit::offers(requested_, changes)) {
    log_({"catalog", ran + ", which ladder.rungs does not offer now"});
    return;
  }
  try {
    estimate_ = fit::make_estimate(fit::with_changes(without_answered_faults(requested_), changes), assumptions_,
                                   fit::FitVerdict::close);
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) != base::ErrorClass::user) throw;
    log_({"catalog", fmt::format("{}, which this build refuses ({} {}): not used", ran, base::code_name(error.code()),
                                 error.problem().got)});
    return;
  }
  log_({"catalog", ran + ": starting there"});
  requested_ = without_answered_faults(std::move(requested_));
  changes_ = changes;
  rung_ = static_cast<size_t>(start.rung);
  log_if_other_experiment();
}

void Launch::log_if_other_experiment() const {
  if (!changes_experiment()) return;
  log_({"ladder", fmt::format("NOTE: sequences have {} tokens, not {} as requested: losses of this run are another "
                              "experiment's",
                              recipe().train.sequence, requested_.train.sequence)});
}

void Launch::check_lineage(const std::filesystem::path& recipe_file) {
  lineage::Subject subject{.code_version = code_version(), .runs = runs_folder()};
  const bool has_platforms = !runtime::backend_named(requested_.backend).platforms.empty();
  if (has_platforms) subject.plugin = runtime::plugins::choose_plugin(requested_.xla.plugin);
  lineage_ = lineage::check_lineage(recipe_file, subject);
  if (lineage_.lock_file.empty()) return;
  if (!lineage_.unread.empty())
    return log_({"lineage", fmt::format("not compared with {}: {}", lineage_.lock_file, lineage_.unread)});
  for (const lineage::Drift& drift : lineage_.drifts) log_({"lineage", lineage::to_text(drift)});
  size_t asked = 0, as_documented = 0;
  for (const lineage::Fact& fact : lineage_.live) {
    const std::string* const documented = lineage::find_value(lineage_.documented, fact.name);
    asked += documented != nullptr ? 1 : 0;
    as_documented += documented != nullptr && *documented == fact.value ? 1 : 0;
  }
  log_({"lineage", fmt::format("{} of {} facts are as {} has them", as_documented, asked, lineage_.lock_file)});
}

void Launch::prepare() {
  agreement_.together([&] {
    estimate_ = fit::make_estimate(requested_, assumptions_, fit::FitVerdict::close);
    requested_signature_ = estimate_->signature;
    start_where_remembered();
    if (!estimate_->fit.may_fit()) fit_by_estimate();
    agreement_.same_estimate(rung_, changes_, *estimate_);
  });
}

void Launch::fit_by_estimate() {
  // What is too large for devices that are not here would meet their absence next, however small it became.
  agreement_.require_devices(requested_);
  const fit::FitReport& fit = estimate_->fit;
  const fit::ChipGroup& worst = fit.worst();
  // Whatever chips need: a user who mends these would meet the host next.
  if (fit.host_limit && fit.host_snapshot > *fit.host_limit) {
    const memory::OutOfMemory lacking = fit::host_misfit_error(fit);
    give_up({lacking, make_report(*estimate_, lacking, {})}, "no rung leaves a host more for the snapshot");
  }
  const memory::OutOfMemory misfit = fit::misfit_error(*estimate_);
  const Failure failure{misfit, make_report(*estimate_, misfit, {})};
  const std::string need =
      worst.may_fit()
          ? fmt::format("{} needs {} of {} for state and the snapshot of checkpoints",
                        fit.host_name.empty() ? "its host" : "host " + fit.host_name, human_bytes(fit.host_needed()),
                        human_bytes(fit.host_limit.value_or(0)))
          : fmt::format("{} needs {} of {}", worst.place, human_bytes(worst.needed()), fit::limit_text(worst));
  log_({"ladder", fmt::format("{} ({}): {}: going down, every rung by estimate first", recipe().name,
                              recipe().model.pattern, need)});
  go_down(failure, {});
}

void Launch::step_down(const memory::OutOfMemory& failure) {
  const memory::OomFacts& facts = failure.facts();
  const std::string place = facts.place.empty() ? "" : facts.place + " ";  // a compiler speaks of no chip
  log_({"ladder", fmt::format("{} ({}): {}ran out of memory ({}): all chips go down together", recipe().name,
                              recipe().model.pattern, place, memory::oom_class_name(facts.cls))});
  if (agreement_.agree_status(Status::out_of_memory) == Status::failed)  // on another, which may not go down any more
    give_up({failure, agreement_.together([&] { return share_report(&failure); })}, "");
  descend(&failure);
}

void Launch::follow_down() {
  log_({"ladder", fmt::format("{} ({}): another process ran out of memory: all chips go down together", recipe().name,
                              recipe().model.pattern)});
  descend(nullptr);
}

catalog::OomReport Launch::share_report(const memory::OutOfMemory* own) {
  const std::string text =
      agreement_.first_of("report of the failure", own != nullptr ? fact_text(make_report(*estimate_, *own, {})) : "");
  MEGACPP_CHECK(!text.empty()) << "a process ran out of memory without a report";
  return fact_of<catalog::OomReport>(text);
}

// What failed on one process bounds all: the least ceiling counts.
void Launch::descend(const memory::OutOfMemory* own) {
  agreement_.together([&] {
    const catalog::OomReport report = share_report(own);
    const memory::OutOfMemory failure = own != nullptr ? *own : failure_elsewhere(recipe(), report);
    drop_fired_fault(failure.facts());
    fit::Ceiling ceiling;
    if (own != nullptr) ceiling = fit::ceiling_below(estimate_->fit.worst().needed(), own->facts());
    ceiling.bytes = agreement_.least("ceiling", ceiling.bytes);
    go_down({failure, report}, ceiling);
    agreement_.same_estimate(rung_, changes_, *estimate_);
  });
}

// Where faults of several processes fired, one of them; the others fire again.
void Launch::drop_fired_fault(const memory::OomFacts& failure) {
  constexpr int64_t kNone = INT64_MAX;
  const int64_t place = agreement_.least("injected fault", fired_fault(requested_.hardware, failure).value_or(kNone));
  if (place == kNone) return;
  requested_ = without_fault(std::move(requested_), place);
  estimate_->planned.set_hardware(without_fault(recipe(), place).hardware);
}

void Launch::end_with(const memory::OutOfMemory& failure) {
  const catalog::OomReport report = agreement_.together([&] {
    agreement_.agree_status(Status::failed);
    return share_report(&failure);
  });
  give_up({failure, report}, "");
}

void Launch::follow_end() {
  const catalog::OomReport report = agreement_.together([&] { return share_report(nullptr); });
  record_failure(report, "");
  base::raise(base::Code::E3101, problem_elsewhere(recipe(), report));
}

void Launch::go_down(const Failure& failure, const fit::Ceiling& ceiling) {
  const auto estimate = [this](const recipe::Recipe& recipe, const fit::Ceiling& below) {
    return fit::make_estimate(recipe, assumptions_, fit::FitVerdict::close, below);
  };
  fit::LadderPath path = fit::walk_ladder(*estimate_, estimate, ceiling);
  note_failure(attempts_, failure.report);
  for (const fit::Attempt& attempt : path.attempts) {
    log_({"ladder", fit::to_text(attempt)});
    attempts_.push_back(attempt);
  }
  if (!path.found) {
    path.least_changes = plan::merged(changes_, path.least_changes);
    // What is below a plan may still be what has just failed.
    const bool is_planned = ceiling.bytes == fit::Ceiling{}.bytes;
    give_up({is_planned ? fit::offering_least(failure.error, requested_, path) : failure.error, failure.report},
            fmt::format("rung {} stop: {}", path.rung, fit::end_text(path)));
  }
  record_failure(failure.report, fmt::format("went on at rung {} with {}", path.rung, fit::to_text(path.changes)));
  changes_ = plan::merged(without_decisions_of(*path.found, std::move(changes_)), path.changes);
  rung_ = std::max(rung_, path.rung);
  estimate_ = std::move(path.found);
  log_({"ladder", "runs with " + fit::changed_text(requested_, changes_)});
  log_if_other_experiment();
}

void Launch::give_up(const Failure& failure, const std::string& ending) {
  catalog::OomReport report = record_failure(failure.report, ending);
  report.ending.clear();  // logged as the ladder's
  for (const std::string& line : lines_of(report)) log_({"memory", line});
  if (!ending.empty()) log_({"ladder", ending});
  const std::string subject = fit::subject_text(recipe());
  const memory::OutOfMemory& error = failure.error;
  const bool is_named = error.problem().where.find(subject) != std::string::npos;  // an estimate names it itself
  throw is_named ? error : error.running(subject);
}

catalog::OomReport Launch::record_failure(catalog::OomReport report, const std::string& ending) {
  report.reductions = reductions_of(attempts_);
  report.ending = ending;
  catalog_.use([&](catalog::Catalog& catalog) { remember_failure(catalog, *estimate_, rung_, report); });
  return report;
}

void Launch::record_success(const ChipReport& worst, std::optional<double> step_seconds) {
  const Measured measured = measured_of("run", *estimate_, worst, step_seconds);
  catalog_.use([&](catalog::Catalog& catalog) { remember_measured(catalog, *estimate_, rung_, measured); });
}

void Launch::record_start() {
  if (attempts_.empty()) return;  // nothing new about where to start
  catalog_.use([&](catalog::Catalog& catalog) {
    catalog.remember_start(requested_signature_, {.at = base::utc_now(),
                                                  .rung = static_cast<int64_t>(rung_),
                                                  .settings = settings_of(changes_),
                                                  .reasons = reasons_of(attempts_)});
  });
}

}  // namespace megacpp::launch
