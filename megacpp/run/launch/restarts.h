// SPDX-License-Identifier: Apache-2.0
// A training that is started again when it fails: from its last complete checkpoint, and from the beginning where it
// has none; on the hosts that are left, in a layout that fits them. What a restart costs is said in steps and seconds.
// Errors that would come again are not tried again: a recipe or a command that is refused, a plan that does not fit, a
// defect of ours; nor is a run that was stopped on request. A launcher that does not end when the training has is
// ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/core/base/process.h"
#include "megacpp/run/launch/host_pool.h"
#include "megacpp/run/launch/log.h"
#include "megacpp/run/launch/supervised_training.h"

namespace megacpp::launch {

struct RestartOptions {
  std::vector<std::string> launcher = {};  // before the program: {"mpirun", "-n", "4"}
  std::string program;
  int64_t restarts = 0;  // at most
  HostPool pool = {};
  std::function<bool()> should_stop = [] { return false; };
  /// Waits so long, or until it should stop.
  std::function<void(std::chrono::seconds)> pause = [](std::chrono::seconds) {};
};

/// One start of the training.
struct Start {
  std::vector<std::string> words;  // launcher, program, and what it is to do
  std::function<bool(base::Children children)>
      is_overdue;  // asked about once a second; yes: the launcher is to be ended
};
/// Runs it to its end; returns the exit status, 128 + a signal.
using RunStart = std::function<int(const Start& start)>;

/// Returns the status of the last start; 130 where it was asked to stop, unless the training has ended by itself. Then
/// it says what was saved and what is lost. Where no host of the pool answers they are asked again, after growing
/// pauses; each time counts as a restart. E3104 where none answers at the first start or after the last restart, E1401
/// where no layout fits those that do.
int run_with_restarts(const SupervisedTraining& training, const RestartOptions& options, const RunStart& run,
                      const Log& log);

/// Whether a start that ended so may end otherwise the next time.
bool is_worth_a_restart(int status);

/// Before hosts are asked again of which none has answered so many times in a row, from 1.
std::chrono::seconds pause_after(int64_t silences);

/// What was done behind the step that is saved, as far as the log has it.
struct LostWork {
  int64_t steps = 0;
  double seconds = 0;
};
LostWork lost_work(const std::filesystem::path& run, int64_t saved_step);

}  // namespace megacpp::launch
