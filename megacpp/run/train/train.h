// SPDX-License-Identifier: Apache-2.0
// The training loop over all chips of a run: stages the micro-batches of a step and runs it, step after step. Metrics
// are fetched where they are logged (train.log_every), so that between two logs the host never waits for a device. It
// reads only the recipe's run section; what the model is stands in the compiled programs. Stops on request, between
// steps and where the run ends a step early (runtime::StoppedInStep), and with E1302 when a fetched loss is not finite.
// Says where the state is to be saved: every checkpoint.every steps, and when the run ends or is stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/read_ahead.h"
#include "megacpp/run/train/expert_shares.h"

namespace megacpp::train {

/// The sequences of a run, as its recipe has them.
data::BatchOptions batch_options(const recipe::Recipe& recipe);

/// The metrics of one step that is logged, and the time of all steps since the log before it. Metrics are absent where
/// another process has the chip that makes them, and where a later step that was stopped has overwritten them.
struct StepReport {
  int64_t step = 0;                          // from 0
  std::optional<double> loss = {};           // mean over micro-steps
  std::optional<double> cross_entropy = {};  //
  std::optional<double> balance = {};    // mean auxiliary balance loss, before its coefficient; absent without experts
  std::optional<double> dropped = {};    // expert requests beyond capacity, all micro-steps; absent without experts
  std::optional<double> grad_norm = {};  // before clipping
  double learning_rate = 0;
  int64_t steps = 0;                       // since the log before, this one included
  double seconds = 0;                      // of these
  int64_t tokens = 0;                      // in these
  std::vector<ExpertShares> experts = {};  // by block; empty where not measured
  data::Stalls data_stalls = {};           // in these: waits for data that was not read in time
  /// Of each of these steps, without what the host does between them. Empty where the run does not wait for its steps,
  /// and where there are more than kTimedSteps.
  std::vector<double> step_seconds = {};
  double saving_seconds = 0;               // of `seconds`: saves between these steps
  int64_t host_syncs = 0;                  // in these, beside the waits that fetch metrics, save, or are the path's own
  int64_t programs_made = 0;               // in these: compiled, or taken from a cache
  std::optional<int64_t> peak_bytes = {};  // the most that a local chip has used at once so far; absent: not measured
  std::optional<int64_t> peak_chip = {};   // of the mesh, that has
  /// Mean seconds of a step, all steps but the first, in which the busiest local chip computed and did not wait for
  /// others; of several processes the most. Absent: not measured.
  std::optional<double> busy_seconds = {};
  std::optional<int64_t> busy_chip = {};  // of the mesh, whose these are
  std::optional<double> logged_at = {};   // seconds since 1970, UTC; absent in logs of versions that did not write it
};

/// Steps between two logs that are timed one by one, at most: their times are kept in memory until then.
inline constexpr int64_t kTimedSteps = 4096;

/// What is trained and on what; all must outlive the training.
struct Training {
  const recipe::Recipe& recipe;
  const compile::Compiled& compiled;
  const data::Batches& batches;
  runtime::Executable& run;  // with its state after `first_step` steps
  int64_t first_step = 0;
};

struct Options {
  bool check_nans = false;  // on a loss that is not finite, name the op that made it so
  /// Adds what other processes know of a step; called by all of them, in the order of their logs.
  std::function<void(StepReport&)> complete_report = {};
  std::function<void(const StepReport&)> after_log = {};
  std::function<bool()> should_stop = {};  // called before every step
  std::function<void(int64_t)> save = {};  // called with the number of whole steps done
};

/// Whether a step's metrics are fetched: the first, every train.log_every-th after it, and the last.
bool is_logged(const recipe::Train& train, int64_t step);

/// Whether the state is saved once so many steps are done.
bool is_saved(const recipe::Recipe& recipe, int64_t steps_done);

/// Steps that were done at the last report, those before the first one included.
int64_t steps_in(const std::vector<StepReport>& reports);

/// Runs the steps from first_step up to recipe.train.steps; returns a report of each step that is logged. A run that is
/// stopped between two logs ends with one of its last whole step. Between logs nothing is allocated after the first
/// step.
std::vector<StepReport> train(const Training& training, const Options& options = {});

}  // namespace megacpp::train
