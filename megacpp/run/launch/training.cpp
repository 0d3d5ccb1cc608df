// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/training.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/collectives/flight/flight_recorder.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/ladder_window.h"
#include "megacpp/run/launch/run_inputs.h"
#include "megacpp/run/launch/shared_facts.h"
#include "megacpp/run/launch/silent_process_watch.h"
#include "megacpp/run/train/load_state.h"
#include "megacpp/run/train/merge_reports.h"
#include "megacpp/run/train/pace.h"
#include "megacpp/run/train/state_saver.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::launch {
namespace {

ProgramCounts program_counts(const runtime::Executable& run) {
  const runtime::Counters counters = run.counters();
  return {.compiles = counters.programs_made() - counters.cache_hits, .cache_hits = counters.cache_hits};
}

// Thrown through the steps of a process whose own memory sufficed.
struct RanOutElsewhere {};
struct FailedElsewhere {};

/// One try to train at a rung.
class Attempt {
 public:
  Attempt(Launch& launch, const TrainingOptions& options)
      : launch_(launch), options_(options), window_(host_memory_of(launch.assumptions().slice.chip)) {}

  Trained run(const data::TokenSource& source) {
    StartOptions own = options_.start;
    own.mesh = launch_.mesh();
    own.before_load = [this](const compile::Compiled& compiled) {
      launch_.agreement().same_programs(compiled, options_.start.without);
      agree_on_directory();
      if (compiled.mesh.chips() > 1) start_flight_record();
      if (options_.start.before_load) options_.start.before_load(compiled);
    };
    own.flight = [this] { return flight_; };
    own.saves = [this] { return saves(); };
    if (launch_.agreement().is_alone()) own.should_stop_in_step = options_.should_stop;
    if (options_.checkpoint != nullptr) {
      trained_.first_step = options_.checkpoint->manifest().position.step;
      own.fill_state = [this](const compile::Compiled& compiled, runtime::Executable& run) {
        train::load_state(*options_.checkpoint, compiled, run);
        trained_.loaded_bytes = options_.checkpoint->manifest().bytes();
        trained_.read_bytes = options_.checkpoint->bytes_checked() + options_.checkpoint->bytes_copied();
      };
    }
    trained_.started = start(launch_.estimate(), own);
    start_saving();
    watch_silent_processes();
    if (options_.before_steps) options_.before_steps(trained_.started);
    train_steps(source);
    if (!trained_.reports.empty() && !trained_.was_stopped) end_step();
    agree_to_stop();  // none leaves while another may still need its chips, or memory
    count_late_programs();
    measure();
    if (saver_) end_saving();
    return std::move(trained_);
  }

  bool window_contains(const memory::OomFacts& failure) const {
    const runtime::Executable* const run = trained_.started.run.get();
    return window_.contains(failure, run != nullptr ? run->programs_made() : 0);
  }

  /// No other process waits for the chips of this one, and their memory is free.
  void abort(const std::string& reason) {
    if (saving_) saving_->abort(saving_->local_chips().front(), reason);
    saver_.reset();
    if (trained_.started.run) trained_.started.run->abort(reason);
    trained_.started.run.reset();
  }

  /// The next rung has a record of its own.
  void drop_flight() {
    if (flight_) flight_->drop();
  }

 private:
  // The coordinator has the run's directory; every process saves the state of its own chips there. Before anything is
  // loaded: later one process may be on its way to the next rung.
  void agree_on_directory() {
    Agreement& agreement = launch_.agreement();
    run_folder_ = agreement.from_coordinator("run directory", [this]() -> std::string {
      if (options_.directory == nullptr) return "";
      set_flight_aside(options_.directory->path());
      return base::absolute(options_.directory->path()).string();
    });
    if (run_folder_.empty()) return;
    if (options_.directory != nullptr) run_folder_ = options_.directory->path();  // as messages have named it
    agreement.on_all("run directory", [&] {
      if (!agreement.is_coordinator()) base::require_writable(run_folder_ / fmt::format("p{}", agreement.process()));
    });
    if (!agreement.is_alone()) saving_ = agreement.make_world();
  }

  bool saves() const { return !run_folder_.empty() && launch_.recipe().checkpoint.saves(); }

  // A run that failed before, and is tried again, keeps what its chips did last.
  static void set_flight_aside(const std::filesystem::path& run) {
    std::error_code ignored;
    const std::filesystem::path last = run / collectives::kFlightFolder,
                                before = run / collectives::kFlightFolderBefore;
    if (!std::filesystem::exists(last, ignored)) return;
    base::try_to_remove_tree(before);
    std::filesystem::rename(last, before, ignored);
  }

  // A run without one is as good while nothing fails.
  void start_flight_record() {
    if (run_folder_.empty()) return;
    Agreement& agreement = launch_.agreement();
    try {
      flight_ = std::make_shared<collectives::FlightRecorder>(
          collectives::FlightRecorder::Options{.file = collectives::flight_file(run_folder_, agreement.process()),
                                               .process = agreement.process(),
                                               .host = runtime::host_name(),
                                               .chips = agreement.local_chips()});
    } catch (const base::Error& error) {
      launch_.log({.topic = "flight", .text = "no record of calls is kept: " + error.problem().got});
    }
  }

  void watch_silent_processes() {
    Agreement& agreement = launch_.agreement();
    if (!options_.on_silent || agreement.is_alone()) return;
    silent_.emplace(SilentProcessWatch::Options{
        .has_stopped = options_.should_stop,
        .silent_successor = [&agreement](std::chrono::milliseconds limit) { return agreement.silent_successor(limit); },
        .say = options_.on_silent});
  }

  void start_saving() {
    const recipe::Recipe& recipe = launch_.recipe();
    if (options_.directory != nullptr) options_.directory->begin_log(trained_.first_step);
    if (!saves()) return;
    checkpoint::Manifest header = train::manifest_header(recipe);
    header.code_version = code_version();
    header.position.step = trained_.first_step;
    header.position.samples_consumed = samples_before();
    saver_.emplace(*trained_.started.compiled, *trained_.started.run,
                   train::SaveOptions{
                       .store = checkpoints_of(run_folder_),
                       .header = std::move(header),
                       .samples_per_step = recipe.train.batch * recipe.train.micro_steps,
                       .keep = recipe.checkpoint.keep,
                       .keep_every = recipe.checkpoint.keep_every,
                       .processes = saving_.get(),
                       .free_bytes = options_.free_host_bytes,
                       .log = [this](const std::string& text) { launch_.log({.topic = "checkpoint", .text = text}); }});
  }

  /// What the run had consumed before its first step; another batch since then does not move it.
  int64_t samples_before() const {
    return options_.checkpoint == nullptr ? 0 : options_.checkpoint->manifest().position.samples_consumed;
  }

  void end_saving() {
    saver_->finish();
    trained_.saves = saver_->saves();
    trained_.blocked_seconds = saver_->blocked_seconds();
  }

  /// A failure is said once: the next step is likely to meet the same full disk.
  void log(const train::StepReport& report) {
    const base::Decision logged = options_.directory->log(report);
    if (logged || log_failed_) return;
    log_failed_ = true;
    launch_.log({.topic = "log",
                 .text = fmt::format("steps from {} on may be missing in {}: {}", report.step + 1,
                                     options_.directory->log_file().string(), logged.reason())});
  }

  void train_steps(const data::TokenSource& source) {
    data::BatchOptions draws = train::batch_options(launch_.recipe());
    draws.start.samples_consumed = samples_before();
    draws.first_step = trained_.first_step;
    const data::Batches batches(source, draws);
    train::Options options{.check_nans = options_.check_nans,
                           .after_log =
                               [this](const train::StepReport& report) {
                                 if (options_.directory != nullptr) log(report);
                                 if (options_.after_log) options_.after_log(report);
                               },
                           .should_stop = [this] { return begin_step(); }};
    if (!launch_.agreement().is_alone())
      options.complete_report = [this](train::StepReport& report) { complete_report(report); };
    if (saver_) options.save = [this](int64_t step) { saver_->save(step); };
    trained_.reports = train::train({.recipe = launch_.recipe(),
                                     .compiled = *trained_.started.compiled,
                                     .batches = batches,
                                     .run = *trained_.started.run,
                                     .first_step = trained_.first_step},
                                    options);
    const int64_t done = trained_.reports.empty() ? trained_.first_step : train::steps_in(trained_.reports);
    trained_.was_stopped = done < launch_.recipe().train.steps;
  }

  // Called before every step, when the one before has ended. True: all processes stop.
  bool begin_step() {
    if (window_.phase() == LadderWindow::Phase::start_up)
      window_.begin_steps();
    else
      end_step();
    return agree_to_stop();
  }

  // A program from a cache is allocated for like one that was compiled. When step 0 has ended, the run holds all that
  // it will: a snapshot for which too little is left sends virtual chips down the ladder, and ends a run on devices,
  // now and not at the first save.
  void end_step() {
    const runtime::Executable& run = *trained_.started.run;
    if (window_.phase() == LadderWindow::Phase::first_step) {
      made_by_first_step_ = program_counts(run);
      if (saver_) saver_->obtain_snapshot();
    }
    window_.end_step(run.programs_made());
  }

  bool agree_to_stop() {
    if (options_.directory != nullptr) options_.directory->require_in_place();
    const bool stop_here = options_.should_stop && options_.should_stop();
    const Status all = launch_.agreement().agree_status(stop_here ? Status::stop_requested : Status::going_on);
    require_going_on(all);
    record_start_once();
    return all == Status::stop_requested;
  }

  static void require_going_on(Status all) {
    if (all == Status::out_of_memory) throw RanOutElsewhere();
    if (all == Status::failed) throw FailedElsewhere();
  }

  // A launch that is killed later has shown as well where the next one can start.
  void record_start_once() {
    if (window_.phase() < LadderWindow::Phase::steady || is_start_recorded_) return;
    launch_.record_start();
    is_start_recorded_ = true;
  }

  void count_late_programs() {
    if (window_.phase() < LadderWindow::Phase::steady) return;  // step 0 did not end
    const ProgramCounts made = program_counts(*trained_.started.run);
    trained_.late_programs = {.compiles = made.compiles - made_by_first_step_.compiles,
                              .cache_hits = made.cache_hits - made_by_first_step_.cache_hits};
  }

  // What the chips of all processes have used.
  void measure() {
    trained_.measures = measures_of(*trained_.started.run);
    if (launch_.agreement().is_alone()) return;
    const std::string own = fact_text(trained_.measures);
    trained_.measures = {};
    for (const std::string& text : launch_.agreement().of_all("measures of the run", own))
      add_measures(trained_.measures, fact_of<RunMeasures>(text));
  }

  // The chip that makes the metrics may be another process's; and another may have run out of memory in this step.
  void complete_report(train::StepReport& report) {
    const Standing all = launch_.agreement().agree_standing(Status::going_on, train::line_of(report));
    require_going_on(all.status);
    for (const std::string& line : all.said) {
      const std::optional<train::StepReport> other = train::report_of(line);
      MEGACPP_CHECK(other.has_value()) << "not the report of a step: " << line;
      train::merge_report(report, *other);
    }
  }

  Launch& launch_;
  const TrainingOptions& options_;
  LadderWindow window_;
  Trained trained_{};
  std::filesystem::path run_folder_;                     // empty: nothing is saved
  std::shared_ptr<collectives::FlightRecorder> flight_;  // shared with the run
  std::unique_ptr<collectives::World> saving_;           // where processes save together; none: this one alone
  std::optional<train::StateSaver> saver_;               // ends before what it reads
  bool log_failed_ = false;
  ProgramCounts made_by_first_step_;  // and by loading before it
  bool is_start_recorded_ = false;
  std::optional<SilentProcessWatch> silent_;
};

// Compared by digest: nothing of it is sent where all have the same.
std::vector<collectives::Field> inputs_of(const Launch& launch, const data::TokenSource& source,
                                          const TrainingOptions& options) {
  std::vector<collectives::Field> fields = lineage_fields(launch.lineage());
  fields.push_back(input_field("data", "data", source.describe()));
  fields.push_back(input_field("data", "fingerprint of the data", base::hash_text(source.fingerprint())));
  if (options.weights)
    for (collectives::Field& file : options.weights())
      fields.push_back(input_field("weights", "weights: " + file.name, std::move(file.value)));
  if (options.checkpoint == nullptr) return fields;
  const checkpoint::Manifest& manifest = options.checkpoint->manifest();
  fields.push_back(input_field("checkpoint", "step of the checkpoint", std::to_string(manifest.position.step)));
  fields.push_back(input_field("checkpoint", "manifest", base::hash_text(checkpoint::to_text(manifest))));
  return fields;
}

// A process that waited for one that ran out of memory learns of it as a chip that failed.
bool is_of_others(const std::exception& error) {
  const auto* const known = dynamic_cast<const base::Error*>(&error);
  return known != nullptr && known->code() == base::Code::E3101;
}

}  // namespace

Trained run_training(Launch& launch, const data::TokenSource& source, const TrainingOptions& options) {
  Agreement& agreement = launch.agreement();
  if (!agreement.is_alone()) agreement.together([&] { agreement.same_inputs(inputs_of(launch, source, options)); });
  for (;;) {
    Attempt attempt(launch, options);
    try {
      Trained trained = attempt.run(source);
      if (!trained.reports.empty())
        launch.record_success(trained.measures.chips.front(), train::pace_of(trained.reports).step_seconds());
      return trained;
    } catch (const memory::OutOfMemory& failure) {
      const bool is_in_window = attempt.window_contains(failure.facts());
      attempt.abort(failure.what());
      if (!is_in_window) launch.end_with(failure);
      attempt.drop_flight();
      launch.step_down(failure);
    } catch (const RanOutElsewhere&) {
      attempt.abort("memory ran out on another process");
      attempt.drop_flight();
      launch.follow_down();
    } catch (const FailedElsewhere&) {
      launch.follow_end();
    } catch (const std::exception& error) {
      const std::string reason = collectives::reason_of(error);
      if (!is_of_others(error)) agreement.abort(reason);  // at once: all worlds then end together
      attempt.abort(reason);
      if (!is_of_others(error)) throw;
      const Status others = agreement.agree_status(Status::going_on);
      if (others == Status::failed) launch.follow_end();
      if (others != Status::out_of_memory) {
        agreement.abort(reason);
        throw;
      }
      attempt.drop_flight();
      launch.follow_down();
    }
  }
}

}  // namespace megacpp::launch
