// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/planned.h"

#include <algorithm>
#include <utility>

#include "megacpp/cli/planning_progress.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/run/launch/assumptions.h"

namespace megacpp::cli {
namespace {

/// What `train` would plan for, all chips in this process.
runtime::FoundHardware hardware_of_train(const recipe::Recipe& recipe) {
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  const recipe::RunRequest request = recipe::run_request(recipe);
  runtime::Machine machine{.free_bytes = backend.free_bytes(request).value_or(INT64_MAX), .local_chips = request.chips};
  if (backend.device_name) machine.device_name = backend.device_name(request);
  return backend.find_hardware(request, machine);
}

}  // namespace

plan::PlannedRecipe settled(const plan::PlannedRecipe& planned, const std::optional<hw::Slice>& slice,
                            const launch::CatalogChoice& catalog_choice) {
  const recipe::Recipe& recipe = planned.recipe();
  const bool is_recompute_left = std::ranges::any_of(recipe::recompute_letters(recipe.model), [&recipe](char letter) {
    return recipe::recompute_level(recipe, letter) == recipe::RecomputeLevel::automatic;
  });
  const bool are_loops_left = slice && recipe.xla.loops == recipe::XlaLoops::automatic;
  if (!is_recompute_left && !are_loops_left) return planned;
  launch::UsersCatalog catalog(catalog_choice, catalog::Access::read);
  const runtime::FoundHardware hardware = slice ? runtime::FoundHardware{.slice = *slice} : hardware_of_train(recipe);
  if (!hardware.note.empty()) print_line({.topic = "hardware", .text = hardware.note});
  const runtime::TargetMesh mesh = runtime::mesh_here(recipe::run_request(recipe), hardware.slice.devices());
  fit::Assumptions assumptions = launch::assumptions_for(recipe, hardware, catalog, mesh);
  assumptions.most_planned_whole = fit::kMostPlannedWhole;
  assumptions.after_pass = planning_progress();
  const fit::Estimate estimate =
      fit::make_estimate(recipe, assumptions, slice ? fit::FitVerdict::fits : fit::FitVerdict::close);
  if (is_recompute_left) print_line({.topic = "recompute", .text = fit::to_text(estimate.recompute)});
  if (estimate.is_unrolled()) print_line({.topic = "blocks", .text = fit::loops_text(estimate)});
  return estimate.planned;
}

plan::PlannedRecipe with_our_placement(plan::PlannedRecipe planned) {
  recipe::Xla xla = planned.recipe().xla;
  xla.placement = recipe::XlaPlacement::megacpp;
  planned.set_xla(std::move(xla));
  return planned;
}

schedule::Target target_of(const plan::PlannedRecipe& planned) {
  const recipe::Recipe& recipe = planned.recipe();
  return runtime::target_on(runtime::backend_that_runs(recipe), recipe::run_request(recipe),
                            planned.plan().parallel.mesh);
}

}  // namespace megacpp::cli
