// SPDX-License-Identifier: Apache-2.0
// All that `megacpp plan` says of a recipe on hardware, gathered before any of it is printed. Nothing is allocated or
// run, and no chip of the hardware is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/cli/correction_report.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/without_effect.h"
#include "megacpp/evidence/report/html.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/islands.h"
#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/hardware/fit/regime.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/plan/composition.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::cli {

struct PlanWishes {
  std::string hardware = {};  // empty: the recipe's, or else this machine
  launch::CatalogChoice catalog = {};
};

struct PlanReport {
  hw::Slice slice;
  plan::Changes filling;     // what was changed so that no chip of it is left over
  std::string lane;          // "xla v6e placement=megacpp"
  std::string catalog_note;  // why nothing corrects it; empty where something does
  fit::Estimate estimate;
  int64_t parameters = 0;  // elements
  std::vector<plan::CompositionStep> composition;
  std::vector<plan::ParameterRow> rows;      // blocks that are alike folded
  std::vector<fit::StoredParameter> stored;  // every one; where blocks were planned once, of the deepest shallow plan
  fit::ArgumentBytes arguments;              // of the worst chip
  std::vector<fit::AxisIsland> islands;      // the link under each axis
  std::vector<fit::Crossing> crossings;      // axes that belong inside the fast domain and leave it
  fit::Regime regime;
  std::string speed_advice;  // what would make a step shorter
  KeysWithoutEffect without_effect;

  const fit::ChipGroup& worst() const { return estimate.fit.worst(); }
  /// On the worst chip, as the backend has it before measurements correct it.
  const fit::Reservation& reserved() const { return estimate.reserved[worst().stage]; }
  /// Of the worst chip.
  const memory::MemoryPlan& memory() const { return estimate.worst_memory(); }
  double tokens_per_step() const;
  double tokens_per_second() const;
};

/// E1601, E1602 for hardware that is not; E1401 where the mesh has another number of chips, and the gates' refusals.
PlanReport make_plan_report(const recipe::Recipe& recipe, const PlanWishes& wishes);

/// "fits: chip 0: data 0 at (0, 0) on host 0 needs 1.00 GiB of 31.24 GiB, 30.24 GiB free"
std::string verdict_text(const PlanReport& report);

/// Of the peak, by what other launches on the lane measured.
LaneCorrection peak_correction(const PlanReport& report);
/// What corrects the peaks and who measured it, or why nothing does, in a sentence.
std::string correction_text(const PlanReport& report);

/// What XLA is expected to reserve on the worst chip, in a line above the table of its terms; empty where a run needs
/// what is planned.
std::string reserved_text(const PlanReport& report);
report::Table reserved_table(const PlanReport& report);

/// "1.20 GiB", "-1.20 GiB" where it does not fit.
std::string free_text(const fit::ChipGroup& group);

/// Where the time of a step is expected and what measured steps of the lane make of it, in sentences.
std::string step_range_text(const PlanReport& report);

/// What is between the arithmetic of a step and its MFU, in a sentence.
std::string arithmetic_text(const fit::StepTime& time);

/// "v6e:2x2: 4 chips on 1 host, Google Cloud TPU v6e (Trillium)"
std::string hardware_text(const hw::Slice& slice);

/// "8 sequences of 256 tokens x 1 micro-step, f32"
std::string step_text(const recipe::Train& train);

/// What a chip sends in a step, by axes of the mesh.
report::Table links_table(const fit::StepTime& time);

/// The link under each axis of the mesh.
report::Table islands_table(const std::vector<fit::AxisIsland>& islands);

/// Fits the terminal: the verdict, then what leads to it.
std::string plan_text(const PlanReport& report);
Json plan_json(const PlanReport& report);
/// One HTML page with pictures.
std::string plan_page(const PlanReport& report);

}  // namespace megacpp::cli
