// SPDX-License-Identifier: Apache-2.0
// From an estimate to a run that has started: programs in the form the backend takes, loaded, compared with the plan,
// and weights drawn or loaded. Training and the confirmation of a candidate both come through here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/timed_part.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::launch {

struct StartOptions {
  std::vector<std::string> without = {};  // as compile::Options: passes to leave out, for debugging
  bool profile = false;                   // keep seconds by op
  int64_t trace_steps = 0;                // record when every node ran, in so many first steps
  /// That the estimate was compiled for, and programs of the run's own are; nothing: all chips in this process.
  std::optional<runtime::TargetMesh> mesh = {};
  std::function<bool()> should_stop_in_step = {};              // as runtime::LoadOptions
  std::function<void(const base::Error& error)> on_hang = {};  // the same
  /// The record of the run's calls, or none; asked for once before_load has ended.
  std::function<std::shared_ptr<collectives::FlightRecorder>()> flight = {};
  /// Whether checkpoints are saved, and host memory is needed for their snapshot; asked at the same time. Empty: no.
  std::function<bool()> saves = {};
  /// The state to start with, in place of weights that are drawn.
  std::function<void(const compile::Compiled&, runtime::Executable&)> fill_state = {};
  std::function<void(const compile::Compiled&)> before_load = {};
  std::function<void(const runtime::Executable&)> after_load = {};
};

/// Ready for step 0. The estimate it came from must outlive it: our own backend runs the programs of the estimate.
struct StartedRun {
  std::unique_ptr<compile::Compiled> own_programs;  // nothing where those of the estimate are run, with all passes
  const compile::Compiled* compiled = nullptr;      // what is run
  std::unique_ptr<runtime::Executable> run;
  std::vector<base::TimedPart> parts = {};  // where the time of starting it went, as far as it is known
};

/// What fails once it is loaded aborts the run, so that no other process waits for this one.
/// memory::OutOfMemory where it does not fit after all; E1007 as compile::Options::without; E1505 where this build
/// lacks the backend; E9001 where what was loaded differs from the plan.
StartedRun start(const fit::Estimate& estimate, const StartOptions& options = {});

}  // namespace megacpp::launch
