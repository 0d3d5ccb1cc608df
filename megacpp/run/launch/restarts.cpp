// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/restarts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/human_seconds.h"
#include "megacpp/core/base/output_path.h"
#include "megacpp/core/base/path.h"
#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/runs_folder.h"
#include "megacpp/run/launch/start_watch.h"
#include "megacpp/run/train/step_log.h"

namespace megacpp::launch {
namespace {

// For a launcher behind train.wait_limit, within which all processes of a training that has failed have ended.
constexpr std::chrono::seconds kLauncherGrace(5);
constexpr std::chrono::seconds kShortestPause(5), kLongestPause(300);

std::optional<int64_t> saved_step(const std::filesystem::path& run) {
  const std::optional<std::filesystem::path> latest = newest_checkpoint(run);
  if (!latest) return std::nullopt;
  const std::filesystem::path manifest = *latest / checkpoint::kManifestFile;
  return checkpoint::parse_manifest(base::read_file(manifest), manifest.string()).position.step;
}

/// A run that saved nothing begins anew under its name.
std::filesystem::path set_aside(const std::filesystem::path& run) {
  for (int64_t number = 1;; ++number) {
    std::filesystem::path aside = run;
    aside += fmt::format(".failed-{}", number);
    if (base::exists(aside)) continue;
    std::error_code error;
    std::filesystem::rename(run, aside, error);
    if (error) base::fail_writing(aside, "cannot rename the run", error.value());
    return aside;
  }
}

std::string ended_text(int status, const StartWatch& watch) {
  if (watch.was_overdue()) return "ended; its launcher did not, and was ended";
  return status > 128 ? fmt::format("was ended by signal {}", status - 128)
                      : fmt::format("ended with status {}", status);
}

constexpr std::array kLayoutKeys = {"layout.chips",
                                    "layout.data_parallel",
                                    "layout.expert_parallel",
                                    "layout.context_parallel",
                                    "layout.tensor_parallel",
                                    "layout.pipeline_parallel",
                                    "layout.zero",
                                    "train.batch",
                                    "train.micro_steps"};

/// What a search for a layout may have changed, back to what it was.
plan::Changes changes_to(const recipe::Recipe& wanted, const recipe::Recipe& recipe) {
  plan::Changes changes;
  for (const char* const key : kLayoutKeys) {
    const recipe::Key& known = *recipe::find_key(key);
    std::string value = recipe::value_text(recipe::member_of(known, wanted));
    if (recipe::value_text(recipe::member_of(known, recipe)) != value) changes.push_back({key, std::move(value)});
  }
  for (const char letter : recipe::recompute_letters(wanted.model))
    if (const recipe::RecomputeLevel level = recipe::recompute_level(wanted, letter);
        recipe::recompute_level(recipe, letter) != level)
      changes.push_back({recipe::recompute_key(letter), std::string(base::text_of(level))});
  return changes;
}

/// How the next start is made: on the hosts that answer now.
class Starts {
 public:
  Starts(const SupervisedTraining& training, const RestartOptions& options, const Log& log)
      : training_(training), options_(options), log_(log), last_(options.pool.hosts) {
    launcher_on(last_, options.launcher);  // is refused before any host is asked
    if (last_.empty()) return;
    first_ = training.first_recipe();
    const int64_t chips = recipe::chips_of(first_.layout), processes = processes_on(last_);
    MEGACPP_REQUIRE(chips % processes == 0, E1007,
                    ({.where = "--hosts",
                      .got = fmt::format("{} processes for {} chips", processes, chips),
                      .wanted = "as many chips for every process",
                      .next = "change the numbers behind the hosts, or the degrees of the layout"}));
    chips_of_process_ = chips / processes;
  }

  /// Takes those that answer; no: none does.
  base::Decision find_hosts() {
    if (options_.pool.hosts.empty()) return base::Decision::yes();
    const std::vector<base::Decision> answered = options_.pool.ask_all();
    std::vector<HostSlots> found;
    std::string lost;
    for (size_t i = 0; i < answered.size(); ++i) {
      const HostSlots& host = options_.pool.hosts[i];
      if (answered[i])
        found.push_back(host);
      else
        lost += fmt::format("{}{} ({})", lost.empty() ? "" : ", ", host.name, answered[i].reason());
    }
    if (found.empty()) return base::Decision::no("no answer from " + lost);
    if (found == last_) return base::Decision::yes();
    log_({.topic = "hosts",
          .text = fmt::format("{}; {} of {} processes", lost.empty() ? "all answer again" : "no answer from " + lost,
                              processes_on(found), processes_on(options_.pool.hosts))});
    last_ = std::move(found);
    return base::Decision::yes();
  }

  std::vector<std::string> words(const std::vector<std::string>& own, const SavedRun& saved) const {
    std::vector<std::string> words = launcher_on(last_, options_.launcher);
    words.push_back(options_.program);
    words.insert(words.end(), own.begin(), own.end());
    if (last_.empty()) return words;
    for (const std::string& setting : plan::overrides_of(layout_changes(saved)))
      words.insert(words.end(), {"--set", setting});
    return words;
  }

  /// Beside the recipe of the run, which every start writes as it runs: who supervises the run next knows the layout
  /// for all hosts. A run without it is as good until then.
  void keep_first_recipe() {
    if (last_.empty() || is_kept_ || !is_run(training_.run)) return;
    is_kept_ = true;
    try {
      base::write_file_atomically(first_recipe_file_of(training_.run), recipe::print(first_));
    } catch (const base::Error& error) {
      log_({.topic = "hosts", .text = "the layout for all of them is not kept: " + error.problem().got});
    }
  }
  /// The run begins anew, in another folder.
  void forget_run() { is_kept_ = false; }

 private:
  // A run that goes on has the layout of its last start, and what its ladder came to. On as many chips it keeps both;
  // on as many as at first it gets the first layout.
  plan::Changes layout_changes(const SavedRun& saved) const {
    const recipe::Recipe recipe = training_.recipe(saved);
    const int64_t chips = chips_of_process_ * processes_on(last_), before = recipe::chips_of(recipe.layout);
    if (chips == before) return {};
    const int64_t most = std::ranges::max_element(last_, {}, &HostSlots::processes)->processes;
    const plan::Changes changes =
        chips == recipe::chips_of(first_.layout)
            ? changes_to(first_, recipe)
            : options_.pool.find_layout({.recipe = recipe, .chips = chips, .chips_of_host = chips_of_process_ * most});
    log_({.topic = "layout",
          .text = fmt::format("{} chips, where it had {}: {}", chips, before, fit::changed_text(recipe, changes))});
    return changes;
  }

  const SupervisedTraining& training_;
  const RestartOptions& options_;
  const Log& log_;
  recipe::Recipe first_;         // as the first start on all hosts has it
  std::vector<HostSlots> last_;  // that it was started on; none: the launcher knows them
  int64_t chips_of_process_ = 0;
  bool is_kept_ = false;  // first_, in the run directory
};

// A recipe that cannot be read is refused by the training itself.
std::chrono::seconds launcher_limit(const SupervisedTraining& training, const SavedRun& saved) {
  recipe::Recipe recipe;
  try {
    recipe = training.recipe(saved);
  } catch (const base::Error&) {
  }
  return std::chrono::seconds(recipe.train.wait_limit) + kLauncherGrace;
}

/// The starts of one training, until one ends well, or none is left.
class Supervisor {
 public:
  Supervisor(const SupervisedTraining& training, const RestartOptions& options, const RunStart& run, const Log& log)
      : training_(training),
        options_(options),
        run_(run),
        log_(log),
        starts_(training, options, log),
        recipe_before_(training.resumes ? base::read_file(recipe_file_of(training.run)) : "") {
    saved_.has_checkpoint = training.resumes;
  }

  int run() {
    if (!await_free_run()) return base::kInterruptedStatus;
    if (training_.resumes) step_before_ = saved_step(training_.run);
    if (!training_.resumes) refuse_existing_run(training_.run);
    for (int64_t start = 0;; ++start) {
      const base::Decision found = starts_.find_hosts();
      if (options_.should_stop()) return base::kInterruptedStatus;
      if (!found) {
        wait_for_hosts(start, found.reason());
        continue;
      }
      silences_ = 0;
      StartWatch watch(training_.run, launcher_limit(training_, saved_));
      const int status = run_start(start, watch);
      // One that ends by itself in the moment of a request has ended so.
      const bool is_cut_short = options_.should_stop() && is_worth_a_restart(status);
      if (is_cut_short || status == base::kInterruptedStatus) return end_stopped();
      if (!is_worth_a_restart(status)) return status;
      const std::string ended = ended_text(status, watch);
      if (start == options_.restarts) {
        log_({.topic = "restart",
              .text = fmt::format("given up after {} restarts: the training {}", options_.restarts, ended)});
        return status;
      }
      if (!prepare_next(fmt::format("{} of {}: the training {}", start + 1, options_.restarts, ended)))
        return base::kInterruptedStatus;
      pause_if_fruitless(status);
    }
  }

 private:
  // A switch that starts again takes all hosts for a minute. At the first start the user is there to mend it.
  void wait_for_hosts(int64_t start, const std::string& reason) {
    MEGACPP_REQUIRE(start > 0 && start < options_.restarts, E3104,
                    ({.where = "megacpp run",
                      .got = reason,
                      .wanted = "a host to start the training on",
                      .next = "see that the words of --probe succeed for one of them"}));
    const std::chrono::seconds pause = pause_after(++silences_);
    log_({.topic = "hosts",
          .text = fmt::format("{}; asked again in {}, restart {} of {}", reason,
                              base::human_seconds(static_cast<double>(pause.count())), start + 1, options_.restarts)});
    options_.pause(pause);
  }

  int run_start(int64_t start, StartWatch& watch) {
    const std::vector<std::string> own = start == 0 ? training_.words : training_.next_words(saved_);
    const auto is_overdue = [&](base::Children children) {
      keep_first_recipe();
      return watch.is_overdue(children);
    };
    const int status = run_({.words = starts_.words(own, saved_), .is_overdue = is_overdue});
    keep_first_recipe();
    // How a launcher ends that is ended says nothing of the training.
    const bool is_its_own = watch.was_overdue() && status != 0 && status != base::kInterruptedStatus;
    return is_its_own ? base::exit_status(base::ErrorClass::environment) : status;
  }

  // A start that was refused has not changed the run, nor what all its hosts are.
  void keep_first_recipe() {
    if (!training_.resumes || is_recipe_written()) starts_.keep_first_recipe();
  }

  // Processes of a start that has ended may hold it for a moment. What another training holds is neither repaired nor
  // renamed under it. No: it was asked to stop before.
  bool await_free_run() const {
    const std::chrono::seconds limit = launcher_limit(training_, saved_);
    for (std::chrono::seconds waited(0); is_in_use(training_.run); ++waited) {
      if (options_.should_stop()) return false;
      if (waited >= limit) refuse_run_in_use(training_.run, waited);
      options_.pause(std::chrono::seconds(1));
    }
    return true;
  }

  // Says what the request has cost.
  int end_stopped() const {
    if (is_in_use(training_.run))
      log_({.topic = "stopped", .text = "a process still trains in " + training_.run.string()});
    else if (is_run(training_.run)) {
      const std::optional<int64_t> step = saved_step(training_.run);
      log_({.topic = "stopped",
            .text = fmt::format("{}; {}", step ? fmt::format("saved after step {}", *step) : "nothing was saved",
                                cost_text(step))});
    }
    return base::kInterruptedStatus;
  }

  std::string cost_text(std::optional<int64_t> step) const {
    const LostWork lost = lost_work(training_.run, step.value_or(0));
    if (lost.steps == 0) return "nothing is lost";
    return fmt::format("lost: {}, {}", base::counted(lost.steps, "step"), base::human_seconds(lost.seconds));
  }

  // Says what is lost, and makes room where nothing is saved. No: it was asked to stop before it could.
  bool prepare_next(const std::string& start) {
    if (!await_free_run()) return false;
    const std::optional<int64_t> step = step_ = saved_step(training_.run);
    const std::string cost = cost_text(step);
    saved_ = {.has_checkpoint = step.has_value(), .has_settings = step && is_recipe_written()};
    if (step) {
      log_({.topic = "restart", .text = fmt::format("{}; goes on after step {}; {}", start, *step, cost)});
      return true;
    }
    const std::string aside = is_run(training_.run) ? ", set aside as " + set_aside(training_.run).string() : "";
    starts_.forget_run();
    log_({.topic = "restart", .text = fmt::format("{}; nothing was saved{}: begins anew; {}", start, aside, cost)});
    return true;
  }

  // An error that comes again at once would use up the restarts before what causes it has passed. Of a signal nobody
  // knows that it comes again.
  void pause_if_fruitless(int status) {
    const bool is_fruitless = status < 128 && step_ == std::exchange(step_before_, step_);
    fruitless_ = is_fruitless ? fruitless_ + 1 : 0;
    if (fruitless_ == 0) return;
    const std::chrono::seconds pause = pause_after(fruitless_);
    log_({.topic = "restart",
          .text = fmt::format("nothing more was saved than before: in {}",
                              base::human_seconds(static_cast<double>(pause.count())))});
    options_.pause(pause);
  }

  bool is_recipe_written() const { return base::read_file(recipe_file_of(training_.run)) != recipe_before_; }

  const SupervisedTraining& training_;
  const RestartOptions& options_;
  const RunStart& run_;
  const Log& log_;
  Starts starts_;
  std::string recipe_before_;  // of a run that goes on, before the first start
  SavedRun saved_;
  std::optional<int64_t> step_, step_before_;  // that were saved when the last start had ended, and the one before
  int64_t silences_ = 0;                       // of all hosts, in a row
  int64_t fruitless_ = 0;                      // starts that ended with an error and saved nothing more, in a row
};

}  // namespace

bool is_worth_a_restart(int status) {
  using base::ErrorClass;
  for (const ErrorClass cls : {ErrorClass::user, ErrorClass::does_not_fit, ErrorClass::internal})
    if (status == base::exit_status(cls)) return false;
  return status != 0 && status != base::kInterruptedStatus;
}

std::chrono::seconds pause_after(int64_t silences) {
  std::chrono::seconds pause = kShortestPause;
  for (int64_t i = 1; i < silences && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

LostWork lost_work(const std::filesystem::path& run, int64_t saved_step) {
  LostWork lost;
  for (const train::StepReport& report : train::read_log(run / "log.jsonl").reports) {
    if (report.step < saved_step) continue;
    lost.steps = std::max(lost.steps, report.step + 1 - saved_step);
    lost.seconds += report.seconds;
  }
  return lost;
}

int run_with_restarts(const SupervisedTraining& training, const RestartOptions& options, const RunStart& run,
                      const Log& log) {
  return Supervisor(training, options, run, log).run();
}

}  // namespace megacpp::launch
