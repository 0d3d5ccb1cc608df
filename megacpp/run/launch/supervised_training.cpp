// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/supervised_training.h"

#include <optional>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/run_directory.h"

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

}  // namespace

recipe::Recipe SupervisedTraining::recipe(const SavedRun& saved) const {
  const std::filesystem::path file = saved.has_checkpoint ? recipe_file_of(run) : std::filesystem::path(words[1]);
  return recipe::load(file, saved.has_settings ? std::vector<std::string>() : settings);
}

recipe::Recipe SupervisedTraining::first_recipe() const {
  const std::filesystem::path kept = first_recipe_file_of(run);
  if (resumes && base::exists(kept)) return recipe::load(kept, settings);
  return recipe({.has_checkpoint = resumes});
}

std::vector<std::string> SupervisedTraining::next_words(const SavedRun& saved) const {
  if (!saved.has_checkpoint) return words;
  std::vector<std::string> next = {"train", "--resume", run.string()};
  if (!saved.has_settings)
    for (const std::string& setting : settings) next.insert(next.end(), {"--set", setting});
  next.insert(next.end(), flags.begin(), flags.end());
  return next;
}

SupervisedTraining supervised_training(const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "train")
    refuse_words(words.empty() ? "no command" : words.front(), "train, with its recipe and flags, behind --");
  SupervisedTraining training{.run = {}, .words = words, .settings = {}, .flags = {}, .resumes = false};
  std::optional<std::string> backend;
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
    } else if (const auto setting = reader.value_of(word, "--set")) {
      training.settings.push_back(*setting);
    } else if (const auto named = reader.value_of(word, "--backend")) {
      backend = "backend=" + *named;
    } else if (!reader.value_of(word, "--from")) {
      training.flags.push_back(word);
    }
  }
  if (backend) training.settings.push_back(*backend);
  if (!training.resumes && !has_recipe) refuse_words(words.size() > 1 ? words[1] : "train alone", "the recipe first");
  if (training.run.empty()) refuse_words("no --run-dir", "the directory by which the run is found again");
  return training;
}

}  // namespace megacpp::launch
