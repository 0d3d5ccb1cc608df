// SPDX-License-Identifier: Apache-2.0
// What a training run ends with, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/run_directory.h"
#include "megacpp/run/launch/training.h"
#include "megacpp/run/train/train.h"

namespace megacpp::cli {

struct TrainedRun {
  const launch::Launch& launch;
  const launch::Trained& trained;
  const launch::RunDirectory& directory;
  double receipt_seconds = 0;  // that its receipts have cost

  const compile::Compiled& compiled() const { return *trained.started.compiled; }  // what ran
  const std::vector<train::StepReport>& reports() const { return trained.reports; }
  const runtime::Executable& run() const { return *trained.started.run; }
};

/// Where the time of a step went: parts that sum to it, what none explains as "other". Empty where it was not measured.
std::string parts_text(const TrainedRun& trained);

/// Empty where no step was made.
std::string train_text(const TrainedRun& trained);
Json train_json(const TrainedRun& trained);

/// What a run directory keeps of the plan it runs by.
Json run_plan_json(launch::Launch& launch);

}  // namespace megacpp::cli
