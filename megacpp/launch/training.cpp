// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/training.h"

#include <utility>

#include "megacpp/base/error.h"
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

// Thrown through the steps of a process whose own memory sufficed.
struct RanOutElsewhere {};

std::vector<train::StepReport> run_steps(Launch& launch, const data::TextCorpus& corpus, StartedRun& started,
                                         const TrainingOptions& options, LadderWindow& window) {
  const data::Batches batches(corpus, train::batch_options(launch.recipe()));
  const auto end_step = [&] {
    const bool was_first = window.phase() == LadderWindow::Phase::first_step;
    if (was_first && launch.agreement().ran_out(false)) throw RanOutElsewhere();
    window.end_step(programs_made(*started.run));
  };
  bool is_first = true;
  // Asked before every step, so that the one before has ended.
  const auto should_stop = [&] {
    is_first ? window.begin_steps() : end_step();
    is_first = false;
    return options.should_stop && options.should_stop();
  };
  std::vector<train::StepReport> reports =
      train::train(launch.recipe(), *started.compiled, batches, *started.run, {.check_nans = options.check_nans},
                   {.after_log = options.after_log, .should_stop = should_stop});
  if (window.phase() == LadderWindow::Phase::first_step) end_step();  // nothing came after it
  return reports;
}

}  // namespace

Trained run_training(Launch& launch, const data::TextCorpus& corpus, const TrainingOptions& options) {
  for (;;) {
    LadderWindow window;
    Trained trained{};
    try {
      StartOptions own = options.start;
      own.transport = launch.agreement().transport();
      trained.started = start(launch.estimate(), own);
      trained.reports = run_steps(launch, corpus, trained.started, options, window);
      if (!trained.reports.empty())
        launch.record_success(*trained.started.run, train::pace_of(trained.reports).step_seconds());
      return trained;
    } catch (const memory::OutOfMemory& failure) {
      const int64_t programs = trained.started.run ? programs_made(*trained.started.run) : 0;
      trained.started.run.reset();  // its arenas are free before another rung needs memory
      if (!window.contains(failure.facts(), programs)) launch.agreement().together([&] { launch.give_up(failure); });
      launch.step_down(failure);
    } catch (const RanOutElsewhere&) {
      trained.started.run.reset();
      launch.follow_down();
    } catch (const base::Error& error) {
      trained.started.run.reset();
      // A process that waited for one that ran out learns of it as a chip that failed.
      const bool may_be_memory = error.code() == base::Code::E3101 && window.phase() < LadderWindow::Phase::steady;
      if (!may_be_memory || !launch.agreement().ran_out(false)) {
        launch.agreement().abort(error.what());
        throw;
      }
      launch.follow_down();
    }
  }
}

}  // namespace megacpp::launch
