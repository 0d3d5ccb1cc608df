// SPDX-License-Identifier: Apache-2.0
// How long the stages of a pipeline take together: every stage runs its programs in its own order, and one that needs
// what another stage hands over waits until it has arrived. Senders do not wait. Time is linear in runs and messages.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/program/plan/pipeline_schedule.h"

namespace megacpp::fit {

/// What one stage does between two updates.
struct StageWork {
  struct Program {
    double seconds = 0;     // the stage is busy
    double sent_after = 0;  // seconds from its start until what it sends has arrived
    /// Tags: with the micro-batch they name one message. Nothing is received that the same program sends.
    std::vector<int64_t> receives = {}, sends = {};
  };
  struct Run {
    size_t program = 0;
    int64_t micro = 0;
  };
  std::vector<Program> programs;
  std::vector<Run> runs;  // in order

  double busy() const;  // seconds, without waiting
};

/// From the start of the first run to the end of the last one.
double pipeline_seconds(const std::vector<StageWork>& stages);

/// A schedule whose parts of the model all take the same, and whose messages take no time.
std::vector<StageWork> even_work(const plan::PipelineSchedule& schedule, const plan::StepCosts& costs);

}  // namespace megacpp::fit
