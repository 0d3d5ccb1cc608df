// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: for each stage (a chip along the stage axis) the ordered list of what it runs. The model
// is cut into stages * chunks model stages; model stage chunk * stages + stage is on chip `stage`. Nothing runs here:
// simulate() executes a schedule by estimate and says whether it is legal, how long it takes, and how many
// micro-batches each stage holds at once. Values are handed over without blocking the sender.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/recipe/modes.h"

namespace megacpp::plan {

/// A backward pass runs whole, or as its input part (what the stage before waits for) and its weight part (what nobody
/// waits for).
enum class StepKind : uint8_t { forward, backward, backward_input, backward_weight };

struct Step {
  StepKind kind = StepKind::forward;
  int64_t chunk = 0;
  int64_t micro = 0;
  bool operator==(const Step&) const = default;
};

struct PipelineShape {
  int64_t stages = 1;  // chips along the stage axis
  int64_t micros = 1;  // micro-batches of one step; any number, also fewer than stages
  int64_t chunks = 1;  // model stages per chip
};

struct PipelineSchedule {
  recipe::StageSchedule kind = recipe::StageSchedule::one_f_one_b;
  PipelineShape shape;
  std::vector<std::vector<Step>> steps;  // [stage], in order
};

/// E1003 for a size below 1, or chunks > 1 where the schedule is not interleaved.
PipelineSchedule build_schedule(recipe::StageSchedule kind, const PipelineShape& shape);

/// One line per stage: "F0.0 F0.1 B0.0 ...", chunk.micro, with F, B, I (backward_input), W (backward_weight).
std::string to_text(const PipelineSchedule& schedule);

/// Time each step takes on one model stage, in any unit; above 0.
struct StepCosts {
  double forward = 1;
  double backward = 2;
  double backward_input = 1;
  double backward_weight = 1;

  double of(StepKind kind) const;
};

struct Simulation {
  /// No: a step is missing, repeated, unknown, or waits forever; nothing below is filled.
  base::Decision legal = base::Decision::yes();
  double makespan = 0;
  std::vector<double> bubble;  // [stage], idle part of the makespan
  /// [stage][chunk]: most micro-batches between the start of their forward and the end of their last backward part at
  /// once, which is how many slots kept activations need.
  std::vector<std::vector<int64_t>> in_flight;
  std::vector<std::vector<std::vector<int64_t>>> slots;  // [stage][chunk][micro], below in_flight[stage][chunk]

  int64_t slot_of(int64_t stage, int64_t chunk, int64_t micro) const;
};

/// Slots depend on the schedule alone, not on `costs`.
Simulation simulate(const PipelineSchedule& schedule, const StepCosts& costs = {});

}  // namespace megacpp::plan
