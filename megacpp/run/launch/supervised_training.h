// SPDX-License-Identifier: Apache-2.0
// A line of `megacpp train`, taken apart as far as starting it again needs: where its run is, what it sets, and which
// flags stay.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// What a run has that its next start goes on from.
struct SavedRun {
  bool has_checkpoint = false;
  bool has_settings = false;  // its recipe was written by a start of this line: what the line sets is in it
};

struct SupervisedTraining {
  std::filesystem::path run;          // its directory
  std::vector<std::string> words;     // as given: "train", "recipe.yaml", ...
  std::vector<std::string> settings;  // "train.steps=9"; the backend is the last one
  std::vector<std::string> flags;     // those that stay beside them when it goes on from a checkpoint
  bool resumes = false;               // it goes on with an earlier run from the start

  /// As the next start reads it: the run's own once there is a checkpoint.
  recipe::Recipe recipe(const SavedRun& saved) const;
  /// As its first start on all hosts had it: a run that was started again may have fewer chips since.
  recipe::Recipe first_recipe() const;
  /// Of the next start: with a checkpoint from there, without one as given. What the line sets is not set again once
  /// the run has it: a start may have taken less (a smaller batch, a layout for fewer chips).
  std::vector<std::string> next_words(const SavedRun& saved) const;
};
/// E1007 for a line that is no training, or whose run could not be found again: without --run-dir or --resume.
SupervisedTraining supervised_training(const std::vector<std::string>& words);

}  // namespace megacpp::launch
