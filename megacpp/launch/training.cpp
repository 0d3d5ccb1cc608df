// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/training.h"

#include <utility>

#include "megacpp/launch/ladder_window.h"
#include "megacpp/train/pace.h"

namespace megacpp::launch {
namespace {

// A program from a cache is allocated for like one that was compiled.
int64_t programs_made(const runtime::Executable& run) {
  const runtime::Counters counters = run.counters();
  int64_t programs = counters.cache_hits;
  for (const auto& [cause, count] : counters.compiles) programs += count;
  return programs;
}

std::vector<train::StepReport> run_steps(const Launch& launch, const data::TextCorpus& corpus, StartedRun& started,
                                         const TrainingOptions& options, LadderWindow& window) {
  const data::Batches batches(corpus, train::batch_options(launch.recipe()));
  bool is_first = true;
  // Asked before every step, so that the one before has ended.
  const auto should_stop = [&] {
    is_first ? window.begin_steps() : window.end_step(programs_made(*started.run));
    is_first = false;
    return options.should_stop && options.should_stop();
  };
  return train::train(launch.recipe(), *started.compiled, batches, *started.run, {.check_nans = options.check_nans},
                      {.after_log = options.after_log, .should_stop = should_stop});
}

}  // namespace

Trained run_training(Launch& launch, const data::TextCorpus& corpus, const TrainingOptions& options) {
  for (;;) {
    LadderWindow window;
    Trained trained{};
    try {
      trained.started = start(launch.estimate(), options.start);
      trained.reports = run_steps(launch, corpus, trained.started, options, window);
      if (!trained.reports.empty())
        launch.record_success(*trained.started.run, train::pace_of(trained.reports).step_seconds());
      return trained;
    } catch (const memory::OutOfMemory& failure) {
      const int64_t programs = trained.started.run ? programs_made(*trained.started.run) : 0;
      trained.started.run.reset();  // its arenas are free before another rung needs memory
      if (!window.contains(failure.facts(), programs)) launch.give_up(failure);
      launch.step_down(failure);
    }
  }
}

}  // namespace megacpp::launch
