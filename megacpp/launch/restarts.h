// SPDX-License-Identifier: Apache-2.0
// A training that is started again when it fails: from its last complete checkpoint, and from the beginning where it
// has none; on the hosts that are left, in a layout that fits them. What a restart costs is said in steps and seconds.
// Errors that would come again are not tried again: a
// recipe or a command that is refused, a plan that does not fit, a defect of ours; nor is a run that was stopped on
// request.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/launch/host_pool.h"
#include "megacpp/launch/log.h"

namespace megacpp::launch {

/// A line of `megacpp train`, taken apart as far as a restart needs.
struct SupervisedTraining {
  std::filesystem::path run;       // its directory
  std::vector<std::string> words;  // as given: "train", "recipe.yaml", ...
  std::vector<std::string> flags;  // those that stay when it goes on from a checkpoint
  bool resumes = false;            // it goes on with an earlier run from the start

  /// As the next start reads it: the run's own once there is a checkpoint.
  recipe::Recipe recipe(bool has_checkpoint) const;
  /// Of the next start: with a checkpoint from there, without one as given.
  std::vector<std::string> next_words(bool has_checkpoint) const;
};
/// E1007 for a line that is no training, or whose run could not be found again: without --run-dir or --resume.
SupervisedTraining supervised_training(const std::vector<std::string>& words);

struct RestartOptions {
  std::vector<std::string> launcher = {};  // before the program: {"mpirun", "-n", "4"}
  std::string program;
  int64_t restarts = 0;  // at most
  HostPool pool = {};
};

/// Runs these words to their end; returns the exit status, 128 + a signal.
using RunWords = std::function<int(const std::vector<std::string>& words)>;

/// Returns the status of the last start. E3104 where no host of the pool answers, E1401 where no layout fits those that
/// do.
int run_with_restarts(const SupervisedTraining& training, const RestartOptions& options, const RunWords& run,
                      const Log& log);

/// Whether a start that ended so may end otherwise the next time.
bool is_worth_a_restart(int status);

/// What was done behind the step that is saved, as far as the log has it.
struct LostWork {
  int64_t steps = 0;
  double seconds = 0;
};
LostWork lost_work(const std::filesystem::path& run, int64_t saved_step);

}  // namespace megacpp::launch
