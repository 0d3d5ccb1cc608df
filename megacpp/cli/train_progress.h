// SPDX-License-Identifier: Apache-2.0
// What a training run says of its steps while it lasts: a line for each that is logged, with the rate since the line
// before. The first line has none: the run's first step, wherever it goes on from, warms caches. What another process
// measures is left out.
#pragma once

#include <string>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/train/train.h"

namespace megacpp::cli {

class TrainProgress {
 public:
  /// `recipe` must outlive it.
  explicit TrainProgress(const recipe::Recipe& recipe);

  void operator()(const train::StepReport& report);

 private:
  std::string peak_text(const train::StepReport& report) const;
  std::string slowest_text(const train::StepReport& report) const;

  const recipe::Recipe& recipe_;
  const bool is_over_processes_;
  bool has_line_ = false;
};

}  // namespace megacpp::cli
