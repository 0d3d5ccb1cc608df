// SPDX-License-Identifier: Apache-2.0
// A sweep: one recipe key varied, all else held, every value run as often as the others and in turn with them. Its
// folder keeps the resolved recipe (recipe.yaml), what was run and how it ended (sweep.json, rewritten whole after
// every run) and the run directories (runs/). A sweep that was stopped goes on where it was: runs that succeeded are
// kept, all others are tried again. A value that was refused or did not fit is not repeated.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/evidence/sweep/axis.h"
#include "megacpp/evidence/sweep/trial_runner.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/runs_folder.h"

namespace megacpp::sweep {

/// Of each value.
inline constexpr size_t kMostRepeats = 100;

struct SweepRequest {
  recipe::Recipe recipe;
  Axis axis;
  size_t repeats = 3;
  std::filesystem::path folder;
};

struct TrialRecord {
  Trial trial = {};
  std::string run = {};  // folder in runs/
  int status = 0;
  std::string error = {};
};

struct Sweep {
  std::filesystem::path folder;
  Axis axis;
  size_t repeats = 0;
  std::vector<TrialRecord> trials = {};  // in the order they were run
  bool was_stopped = false;              // on request

  std::filesystem::path run_path(const TrialRecord& trial) const { return launch::runs_of_sweep(folder) / trial.run; }
};

/// Runs that are still to be made; none of values that were refused or did not fit.
size_t runs_left(const Sweep& sweep);
/// "6 runs", or "4 of 6 runs" where some are left.
std::string progress_text(const Sweep& sweep);

/// Called before a run: how many are done of how many, and what comes.
using OnTrial = std::function<void(size_t done, size_t all, const Trial& trial)>;

/// Values are checked before anything runs. E1007 where the folder holds a sweep of something else, E1008 where its
/// file is damaged, E3001 where it cannot be written.
Sweep run_sweep(const SweepRequest& request, const TrialRunner& runner, const OnTrial& on_trial);

}  // namespace megacpp::sweep
