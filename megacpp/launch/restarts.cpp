// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/restarts.h"

#include <algorithm>
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
#include "megacpp/launch/run_directory.h"
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

}  // namespace

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
  for (int64_t start = 0;; ++start) {
    std::vector<std::string> words = options.launcher;
    words.push_back(options.program);
    const std::vector<std::string> own = start == 0 ? training.words : training.next_words(has_checkpoint);
    words.insert(words.end(), own.begin(), own.end());
    const int status = run(words);
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
