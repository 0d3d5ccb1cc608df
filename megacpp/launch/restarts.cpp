// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/restarts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/human_seconds.h"
#include "megacpp/base/output_path.h"
#include "megacpp/base/path.h"
#include "megacpp/checkpoint/manifest.h"
#include "megacpp/fit/ladder.h"
#include "megacpp/launch/run_directory.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/recipe/schema.h"
#include "megacpp/train/step_log.h"

namespace megacpp::launch {
namespace {

[[noreturn]] void refuse_words(const std::string& got, const std::string& wanted) {
  base::raise(base::Code::E1007,
              {.where = "megacpp run", .got = got, .wanted = wanted, .next = "see: megacpp run --help"});
}

/// Walks the words behind "train"; a flag's value is the rest of its word, or the next one.
class WordReader {
 public:
  explicit WordReader(const std::vector<std::string>& words) : words_(words) {}

  bool at_end() const { return at_ == words_.size(); }
  const std::string& next() { return words_[at_++]; }
  /// The value of the flag that `word` is; nothing: it is another word.
  std::optional<std::string> value_of(const std::string& word, std::string_view flag) {
    if (word == flag) return at_end() || words_[at_].starts_with("-") ? "" : next();
    if (word.starts_with(std::string(flag) + "=")) return word.substr(flag.size() + 1);
    return std::nullopt;
  }

 private:
  const std::vector<std::string>& words_;
  size_t at_ = 1;
};

std::optional<int64_t> saved_step(const std::filesystem::path& run) {
  const checkpoint::Store store = checkpoints_of(run);
  store.recover();
  const std::optional<std::filesystem::path> latest = store.latest();
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

std::string ended_text(int status) {
  return status > 128 ? fmt::format("was ended by signal {}", status - 128)
                      : fmt::format("ended with status {}", status);
}

// Says what is lost, and makes room where nothing is saved. Whether there is a checkpoint.
bool prepare_restart(const SupervisedTraining& training, const std::string& start, const Log& log) {
  const std::optional<int64_t> saved = saved_step(training.run);
  const LostWork lost = lost_work(training.run, saved.value_or(0));
  const std::string cost = fmt::format("lost: {} steps, {}", lost.steps, base::human_seconds(lost.seconds));
  if (saved) {
    log({.topic = "restart", .text = fmt::format("{}; goes on after step {}; {}", start, *saved, cost)});
    return true;
  }
  const std::string aside = is_run(training.run) ? ", set aside as " + set_aside(training.run).string() : "";
  log({.topic = "restart", .text = fmt::format("{}; nothing was saved{}: begins anew; {}", start, aside, cost)});
  return false;
}

// What a search for a layout changes, beside recompute, which suits more chips as well.
constexpr std::array kLayoutKeys = {"layout.chips",
                                    "layout.data_parallel",
                                    "layout.expert_parallel",
                                    "layout.context_parallel",
                                    "layout.tensor_parallel",
                                    "layout.pipeline_parallel",
                                    "layout.zero",
                                    "train.batch",
                                    "train.micro_steps"};

/// How the next start is made: on the hosts that answer now.
class Starts {
 public:
  Starts(const SupervisedTraining& training, const RestartOptions& options, const Log& log)
      : training_(training), options_(options), log_(log), last_(options.pool.hosts) {
    if (last_.empty()) return;
    first_ = training.recipe(training.resumes);
    const int64_t chips = recipe::chips_of(first_.layout), processes = processes_on(last_);
    MEGACPP_REQUIRE(chips % processes == 0, E1007,
                    ({.where = "--hosts",
                      .got = fmt::format("{} processes for {} chips", processes, chips),
                      .wanted = "as many chips for every process",
                      .next = "change the numbers behind the hosts, or the degrees of the layout"}));
    chips_of_process_ = chips / processes;
  }

  std::vector<std::string> words(const std::vector<std::string>& own, bool has_checkpoint) {
    std::vector<std::string> words = options_.launcher;
    plan::Changes changes;
    if (!last_.empty()) {
      take_hosts();
      words = launcher_on(last_, options_.launcher);
      changes = layout_changes(has_checkpoint);
    }
    words.push_back(options_.program);
    words.insert(words.end(), own.begin(), own.end());
    for (const std::string& setting : plan::overrides_of(changes)) words.insert(words.end(), {"--set", setting});
    return words;
  }

 private:
  void take_hosts() {
    std::vector<HostSlots> found;
    std::string lost;
    for (const HostSlots& host : options_.pool.hosts)
      if (options_.pool.answers(host.name))
        found.push_back(host);
      else
        lost += (lost.empty() ? "" : ", ") + host.name;
    MEGACPP_REQUIRE(!found.empty(), E3104,
                    ({.where = "megacpp run",
                      .got = "none of " + to_text(options_.pool.hosts) + " answers",
                      .wanted = "a host to start the training on",
                      .next = "see that the words of --probe succeed for one of them"}));
    if (found == last_) return;
    log_({.topic = "hosts",
          .text = fmt::format("{}; {} of {} processes", lost.empty() ? "all answer again" : "no answer from " + lost,
                              processes_on(found), processes_on(options_.pool.hosts))});
    last_ = std::move(found);
  }

  // A run that goes on has the layout of its last start; on as many chips as at first it gets that of the first one.
  plan::Changes layout_changes(bool has_checkpoint) const {
    const recipe::Recipe recipe = training_.recipe(has_checkpoint);
    const int64_t chips = chips_of_process_ * processes_on(last_);
    const int64_t most = std::ranges::max_element(last_, {}, &HostSlots::processes)->processes;
    plan::Changes changes;
    if (chips == recipe::chips_of(first_.layout))
      changes = changes_to_first(recipe);
    else if (chips != recipe::chips_of(recipe.layout))
      changes =
          options_.pool.find_layout({.recipe = recipe, .chips = chips, .chips_of_host = chips_of_process_ * most});
    if (changes.empty()) return changes;
    log_({.topic = "layout",
          .text = fmt::format("{} chips, where it had {}: {}", chips, recipe::chips_of(recipe.layout),
                              fit::changed_text(recipe, changes))});
    return changes;
  }

  plan::Changes changes_to_first(const recipe::Recipe& recipe) const {
    plan::Changes changes;
    for (const char* const key : kLayoutKeys) {
      const recipe::Key& known = *recipe::find_key(key);
      const std::string wanted = recipe::value_text(recipe::member_of(known, first_));
      if (recipe::value_text(recipe::member_of(known, recipe)) != wanted) changes.push_back({key, wanted});
    }
    return changes;
  }

  const SupervisedTraining& training_;
  const RestartOptions& options_;
  const Log& log_;
  recipe::Recipe first_;         // as the first start has it
  std::vector<HostSlots> last_;  // that it was started on; none: the launcher knows them
  int64_t chips_of_process_ = 0;
};

// What a line sets: every --set, and --backend, which is the last word.
std::vector<std::string> overrides_in(const std::vector<std::string>& flags) {
  std::vector<std::string> overrides, backend;
  const auto take = [&](std::string_view flag, const std::string& key, std::vector<std::string>& taken) {
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] == flag && i + 1 < flags.size()) taken.push_back(key + flags[i + 1]);
      if (flags[i].starts_with(std::string(flag) + "=")) taken.push_back(key + flags[i].substr(flag.size() + 1));
    }
  };
  take("--set", "", overrides);
  take("--backend", "backend=", backend);
  overrides.insert(overrides.end(), backend.begin(), backend.end());
  return overrides;
}

}  // namespace

recipe::Recipe SupervisedTraining::recipe(bool has_checkpoint) const {
  const std::filesystem::path file = has_checkpoint ? recipe_file_of(run) : std::filesystem::path(words[1]);
  return recipe::load(file, overrides_in(flags));
}

SupervisedTraining supervised_training(const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "train")
    refuse_words(words.empty() ? "no command" : words.front(), "train, with its recipe and flags, behind --");
  SupervisedTraining training{.run = {}, .words = words, .flags = {}, .resumes = false};
  WordReader reader(words);
  const bool has_recipe = words.size() > 1 && !words[1].starts_with("-");
  if (has_recipe) reader.next();
  while (!reader.at_end()) {
    const std::string word = reader.next();
    if (const auto run = reader.value_of(word, "--run-dir")) {
      training.run = *run;
    } else if (const auto resumed = reader.value_of(word, "--resume")) {
      training.run = find_run(resumed->empty() ? "latest" : *resumed);
      training.resumes = true;
    } else if (!reader.value_of(word, "--from")) {
      training.flags.push_back(word);
    }
  }
  if (!training.resumes && !has_recipe) refuse_words(words.size() > 1 ? words[1] : "train alone", "the recipe first");
  if (training.run.empty()) refuse_words("no --run-dir", "the directory by which the run is found again");
  return training;
}

std::vector<std::string> SupervisedTraining::next_words(bool has_checkpoint) const {
  if (!has_checkpoint) return words;
  std::vector<std::string> next = {"train", "--resume", run.string()};
  next.insert(next.end(), flags.begin(), flags.end());
  return next;
}

bool is_worth_a_restart(int status) {
  using base::ErrorClass;
  for (const ErrorClass cls : {ErrorClass::user, ErrorClass::does_not_fit, ErrorClass::internal})
    if (status == base::exit_status(cls)) return false;
  return status != 0 && status != base::kInterruptedStatus;
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

int run_with_restarts(const SupervisedTraining& training, const RestartOptions& options, const RunWords& run,
                      const Log& log) {
  bool has_checkpoint = training.resumes;
  Starts starts(training, options, log);
  for (int64_t start = 0;; ++start) {
    const std::vector<std::string> own = start == 0 ? training.words : training.next_words(has_checkpoint);
    const int status = run(starts.words(own, has_checkpoint));
    if (!is_worth_a_restart(status)) return status;
    if (start == options.restarts) {
      log({.topic = "restart",
           .text = fmt::format("the training {} and was restarted {} times: given up", ended_text(status),
                               options.restarts)});
      return status;
    }
    has_checkpoint = prepare_restart(
        training, fmt::format("{} of {}: the training {}", start + 1, options.restarts, ended_text(status)), log);
  }
}

}  // namespace megacpp::launch
