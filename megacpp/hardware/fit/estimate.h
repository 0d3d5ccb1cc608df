// SPDX-License-Identifier: Apache-2.0
// A recipe on hardware, compiled without running: the same passes as a run's, stopped before anything is allocated.
// What plans, ladder and search are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/hardware/catalog/calibration.h"
#include "megacpp/hardware/fit/auto_recompute.h"
#include "megacpp/hardware/fit/fit_report.h"
#include "megacpp/hardware/fit/hardware_target.h"
#include "megacpp/hardware/fit/lane.h"
#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/fit/shallow_plans.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/recipe/unsupported.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// What xla.loops: auto became: `on` or `off` stands in the recipe.
struct LoopsChoice {
  int64_t looped_bytes = 0;  // that a chip needs with blocks in loops
};

struct Estimate {
  plan::PlannedRecipe planned;             // what runs: nothing left to planning
  catalog::Signature signature;            // what the catalog knows it by
  std::vector<RecomputeChoice> recompute;  // what train.recompute: auto became
  std::optional<LoopsChoice> loops = {};   // what xla.loops: auto became, where the plan decided it
  Lane lane = {};                          // what is measured of it belongs there
  compile::Compiled compiled;
  catalog::Correction correction;          // of its peak, by what other launches measured
  std::vector<Reservation> reserved = {};  // by stage, as the backend has it before anything measured corrects it
  FitReport fit;
  StepTime time;
  catalog::Correction time_correction = {};  // of its time, likewise
  std::vector<ir::Tier> tiers = {};          // what runs it can keep tensors in these beside its devices
  /// Where blocks that repeat were planned once: what was compiled. `compiled` then has memory and FLOPs alone, and
  /// nothing that runs.
  std::optional<ShallowPlans> shallow = {};

  const recipe::Recipe& recipe() const { return planned.recipe(); }
  const plan::Plan& plan() const { return planned.plan(); }
  /// The time of a step as measurements correct it, else as predicted.
  double step_seconds() const;
  /// Whether the plan took unrolled blocks where the recipe leaves it open.
  bool is_unrolled() const { return loops && recipe().xla.loops == recipe::XlaLoops::off; }
  /// What it was made of: with auto where that was left to planning.
  recipe::Recipe requested() const;
  const memory::MemoryPlan& worst_memory() const { return compiled.stages[fit.worst().stage].memory; }
};

/// A lane with unrolled blocks, and what differs on it.
struct UnrolledLane {
  Lane lane;
  std::vector<std::string> features;                    // of the backend's settings, for signatures
  std::vector<catalog::Sample> peaks = {}, steps = {};  // measured on it
};

/// Where a plan is made for, and what runs it there.
struct Assumptions {
  hw::Slice slice;
  bool has_rates = true;                    // of the slice; without them an estimate has no time
  schedule::Target kernels;                 // of a backend of ours: which ops stay whole
  Lane lane = {};                           // whose samples correct it
  std::optional<XlaForms> xla_forms = {};   // what XLA is given there; nothing where the lane's backend is not it
  bool kernels_run_there = false;           // on chips of any kind: what is compiled for `kernels` is what runs
  recipe::FindUnsupported cannot_run = {};  // by the lane's backend; empty: it runs everything
  Reserve reserve = {};                     // likewise, what its steps take of a chip; empty: what is planned
  double pool_share = 1;                    // likewise, of a chip's usable memory: what its programs are served from
  std::vector<std::string> features = {};   // of the backend's settings, for signatures
  std::vector<int64_t> limits = {};         // bytes by chip, 0: the hardware's own; empty: that for all
  Hosts hosts = {};                         // beside devices
  catalog::Build build = {};                // what runs it
  std::vector<catalog::Sample> peaks = {};  // measured on this lane: plans are corrected by those of other launches
  std::vector<catalog::Sample> steps = {};  // likewise, times of steps
  /// Blocks of a model above which those that repeat are planned once (shallow_plans.h). What runs is compiled whole.
  int64_t most_planned_whole = INT64_MAX;
  std::function<void(std::string_view pass)> after_pass = {};  // of every compilation
  /// Whether each level of recompute is tried on the way to what is enough, so that every choice has its reason. A
  /// search asks for none: what is enough is then bisected, more recompute being taken to need less.
  bool says_why = true;
  int threads = 1;  // that an estimate may compile plans on at once
  /// Where the recipe leaves it to planning (xla.loops: auto) and plans know enough of unrolled blocks: on TPUs.
  std::optional<UnrolledLane> unrolled = {};
};

/// By stage of a compiled step there; nothing where that of a deep model is on no lines.
std::optional<std::vector<Reservation>> reservations_of(const StepProgram& step, const Assumptions& assumptions);

/// What the compiler is told there. The machine itself runs our own kernels, with their scratch memory.
schedule::Target target_on(const Assumptions& assumptions);
/// A step that was compiled for such a target, as the lane runs it.
StepTime predict_step(const compile::Compiled& compiled, const Assumptions& assumptions, ir::DType precision);

/// The mesh must have as many chips as the slice has devices (E1401). Gates refuse as in make_plan; E1505 for what the
/// lane's backend cannot run.
/// train.recompute: auto is decided here: raised until the plan is as sure as `reach` says, and below `ceiling` as
/// well. Where no level is as sure it is raised until what is expected is within the limits, for `reach` close the
/// least, and where none is enough for that the estimate is of what needs the least of full and selective recompute for
/// all and, where full needs more than selective, of every level on the way. Plans and searches reach what fits.
/// Launches and the ladder take what is close with less recompute: their compiler answers next, and what it refuses is
/// the next ceiling.
/// xla.loops: auto is decided here too, where the assumptions have an unrolled lane: loops, which are compiled sooner,
/// unless no level is enough with them, or as sure as unrolled blocks without more recompute are.
Estimate make_estimate(const recipe::Recipe& recipe, const Assumptions& assumptions,
                       FitVerdict reach = FitVerdict::fits, const Ceiling& ceiling = {});
/// Within its limits by the least that is needed, and below the ceiling: it fits or is close.
bool may_fit(const Estimate& estimate, const Ceiling& ceiling);

/// "unrolled (with blocks in loops a chip needs 6.56 GiB)"; empty where nothing was left to planning, or loops are
/// kept.
std::string loops_text(const Estimate& estimate);

/// What the catalog knows such an estimate by.
catalog::Signature signature_of(const recipe::Recipe& recipe, const Assumptions& assumptions);

/// What fills the slice: where the layout leaves chips over, data_parallel takes them, and the batch grows as far as
/// its micro-steps can give, so that the global batch stays. Nothing where the layout says how many chips it wants.
plan::Changes filling_changes(const recipe::Recipe& recipe, int64_t devices);

/// The recipe with changes made; E1001 to E1005 as for --set.
recipe::Recipe with_changes(const recipe::Recipe& recipe, const plan::Changes& changes);

}  // namespace megacpp::fit
