// SPDX-License-Identifier: Apache-2.0
// A prepared launch trained to its end. Memory that runs out in the ladder's window sends all chips to the next rung
// and starts again; outside it the run ends with a report.
#pragma once

#include <functional>
#include <vector>

#include "megacpp/data/text_corpus.h"
#include "megacpp/launch/launch.h"
#include "megacpp/launch/start.h"
#include "megacpp/train/train.h"

namespace megacpp::launch {

struct TrainingOptions {
  StartOptions start = {};
  bool check_nans = false;
  std::function<void(const train::StepReport&)> after_log = {};
  std::function<bool()> should_stop = {};  // asked between steps
};

/// Holds programs of the launch, which must outlive it.
struct Trained {
  StartedRun started;
  std::vector<train::StepReport> reports;
};

Trained run_training(Launch& launch, const data::TextCorpus& corpus, const TrainingOptions& options = {});

}  // namespace megacpp::launch
