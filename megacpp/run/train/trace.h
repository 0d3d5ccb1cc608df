// SPDX-License-Identifier: Apache-2.0
// What chips did when, as JSON that chrome://tracing and ui.perfetto.dev show: a process for each chip, an event for
// each node that ran, and a span for each collective from its start until it is done.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/runtime/executable.h"

namespace megacpp::train {

/// Steps that `megacpp train --trace` keeps: the first one warms caches, the others repeat.
inline constexpr int64_t kTracedSteps = 3;

struct ChipTrace {
  int64_t chip = 0;
  std::string name;
  std::span<const runtime::TraceEvent> events;  // in the order in which they began
};

/// The events of some chips, as a part of a trace. Times are microseconds; events are in the order of time, chip by
/// chip. A collective whose done was not kept has no span.
std::string chrome_events(const std::vector<ChipTrace>& chips);
/// The whole trace, from the events of every process. Each process counts time from when it began.
std::string to_chrome_trace(std::span<const std::string> events);

/// The local chips of a run that was loaded with tracing.
std::vector<ChipTrace> traces_of(const runtime::Executable& run, const ir::Mesh& mesh);

}  // namespace megacpp::train
