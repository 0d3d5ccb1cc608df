// SPDX-License-Identifier: Apache-2.0
// A step on four chips of a TPU whose blocks keep most of what a chip needs: there are limits that it meets with blocks
// unrolled and not in loops.
#pragma once

#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"
#include "tests/support/reserving.h"

namespace megacpp::testing_support {

/// Wide feed-forwards and long sequences, nothing recomputed unless the settings say so.
inline recipe::Recipe wide_activations_recipe(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.pattern=AE",
                                       "model.depth=16",
                                       "model.feed_forward.experts=0",
                                       "model.feed_forward.intermediate=8192",
                                       "train.precision=bf16",
                                       "train.batch=4",
                                       "train.micro_steps=1",
                                       "train.sequence=4096",
                                       "layout.data_parallel=4",
                                       "layout.zero=3",
                                       "train.recompute.A=none",
                                       "train.recompute.E=none"};
  settings.insert(settings.end(), more.begin(), more.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
}

/// As a launch makes them for a recipe that leaves loops to planning: unrolled blocks need less. A limit for all chips,
/// 0: the hardware's own.
inline fit::Assumptions with_unrolled_lane(int64_t limit = 0, double unrolled_part = 0.6) {
  fit::Assumptions assumptions = test_assumptions("v6e:2x2", limit);
  assumptions.reserve = [unrolled_part](const fit::StepProgram& step,
                                        const hw::Chip&) -> std::optional<fit::Reservation> {
    const double part = step.planned.recipe().xla.loops == recipe::XlaLoops::off ? unrolled_part : 1;
    return reserved(step.compiled.stages[step.stage].memory,
                    {.least = 0.9 * part, .expected = part, .most = 1.1 * part, .is_asked_first = true});
  };
  assumptions.lane = {.backend = "xla", .hardware = "v6e", .placement = recipe::XlaPlacement::megacpp};
  fit::Lane unrolled = assumptions.lane;
  unrolled.loops = fit::LaneLoops::off;
  assumptions.unrolled = fit::UnrolledLane{unrolled, {"loops=off"}};
  return assumptions;
}

}  // namespace megacpp::testing_support
