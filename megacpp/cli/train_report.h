// SPDX-License-Identifier: Apache-2.0
// What a training run ends with, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/compile/compile.h"
#include "megacpp/launch/launch.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/train/train.h"

namespace megacpp::cli {

struct TrainedRun {
  const launch::Launch& launch;
  const compile::Compiled& compiled;  // what ran
  const std::vector<train::StepReport>& reports;
  const runtime::Executable& run;
};

/// Seconds in all stages of our own compiler.
double compile_seconds(const compile::Compiled& compiled);

/// Empty where no step was made.
std::string train_text(const TrainedRun& trained);
Json train_json(const TrainedRun& trained);

}  // namespace megacpp::cli
