// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/regime.h"

#include <algorithm>
#include <string>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/run/train/pace.h"

namespace megacpp::launch {
namespace {

// The first report of a run, also of one that goes on, has the step that warms up in it.
std::string why_unmeasured(const Launch& launch, const Trained& trained) {
  if (!runtime::backend_named(launch.recipe().backend).runs_node_by_node)
    return "a step is one program, which does not show where its time went";
  if (!trained.started.run->waits_for_steps())
    return "devices run ahead of their host, which does not see where the time goes: --profile does";
  if (trained.reports.size() < 2)
    return "the only report has the step that warms up in it: run more steps, or log more often with train.log_every";
  return "no whole step was timed after the first";
}

}  // namespace

std::optional<runtime::StepParts> measured_parts(const Trained& trained) {
  std::optional<runtime::StepParts> parts = trained.measures.parts;
  const std::optional<double> step = train::pace_of(trained.reports).step_seconds();
  if (!parts || !step) return std::nullopt;
  const double explained = parts->seconds() - parts->other;
  parts->other = std::max(0.0, *step - explained);
  return parts;
}

fit::Regime regime_of(const Launch& launch, const Trained& trained) {
  std::optional<fit::StepTime> measured;
  if (const auto parts = measured_parts(trained))
    measured = fit::StepTime{.compute = parts->arithmetic,
                             .memory = parts->memory,
                             .exposed = parts->links,
                             .bubble = parts->bubble,
                             .other = parts->other};
  return fit::regime_of(measured, {.fallbacks = trained.started.compiled->fallbacks.size(),
                                   .late_compiles = static_cast<size_t>(trained.late_programs.compiles),
                                   .late_cache_hits = static_cast<size_t>(trained.late_programs.cache_hits),
                                   .unmeasured = measured ? "" : why_unmeasured(launch, trained),
                                   .was_shrunk = launch.rung() > 0});
}

}  // namespace megacpp::launch
