// SPDX-License-Identifier: Apache-2.0
// What a training run ends with, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/compile/compile.h"
#include "megacpp/launch/launch.h"
#include "megacpp/launch/training.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/train/train.h"

namespace megacpp::cli {

struct TrainedRun {
  const launch::Launch& launch;
  const compile::Compiled& compiled;  // what ran
  const std::vector<train::StepReport>& reports;
  const runtime::Executable& run;
  launch::ProgramCounts late_programs;
};

/// Where the time of a step went: parts that sum to it, what none explains as "other". Empty where it was not measured.
std::string parts_text(const TrainedRun& trained);

/// Empty where no step was made.
std::string train_text(const TrainedRun& trained);
Json train_json(const TrainedRun& trained);

}  // namespace megacpp::cli
