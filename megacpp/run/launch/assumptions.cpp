// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/assumptions.h"

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/run/launch/build.h"

namespace megacpp::launch {

hw::Slice slice_named(const std::string& name, std::string_view backend) {
  hw::Slice slice =
      hw::parse_target(name, {.host_rates = [&] { return runtime::backend_here(backend).host_rates.kept(); }});
  slice.chip = hw::rates_by(slice.chip, runtime::backend_on(slice.chip.kind, backend).name);
  return slice;
}

namespace {

/// With what the recipe leaves to the chip.
recipe::RunRequest request_on(const runtime::Backend& backend, const recipe::Recipe& recipe, const hw::Chip& chip) {
  return recipe::run_request(backend.settled_on ? backend.settled_on(chip, recipe) : recipe);
}

std::vector<std::string> features_on(const recipe::Recipe& recipe, const hw::Chip& chip) {
  const runtime::Backend& named = runtime::backend_named(recipe.backend);
  return named.features ? named.features(request_on(named, recipe, chip)) : std::vector<std::string>();
}

}  // namespace

fit::Lane lane_on(const hw::Slice& slice, const recipe::Recipe& recipe) {
  const runtime::Backend& backend = runtime::backend_on(slice.chip.kind, recipe.backend);
  const recipe::RunRequest request = request_on(backend, recipe, slice.chip);
  return {.backend = backend.name,
          .hardware = slice.chip.name,
          .placement = backend.placement ? std::optional(backend.placement(request)) : std::nullopt,
          .loops = backend.loops_on ? backend.loops_on(request, slice.chip) : fit::LaneLoops::any};
}

fit::Assumptions assumptions_for(const recipe::Recipe& recipe, runtime::FoundHardware hardware, UsersCatalog& catalog,
                                 const runtime::TargetMesh& mesh) {
  const runtime::Backend& backend = runtime::backend_on(hardware.slice.chip.kind, recipe.backend);
  const int64_t devices = hardware.slice.devices();
  fit::Assumptions assumptions{.slice = std::move(hardware.slice),
                               .has_rates = hardware.has_rates,
                               .kernels = runtime::estimate_target(backend, recipe::run_request(recipe), mesh),
                               .lane = {},
                               .kernels_run_there = backend.estimates_with.empty(),
                               .cannot_run = backend.cannot_run,
                               .reserve = backend.reserve,
                               .limits = recipe::chip_limits(recipe.hardware, devices),
                               .build = {}};
  assumptions.slice.chip = hw::rates_by(assumptions.slice.chip, backend.name);
  const hw::Chip& chip = assumptions.slice.chip;
  assumptions.features = features_on(recipe, chip);
  if (backend.xla_forms)
    assumptions.xla_forms = backend.xla_forms(request_on(backend, recipe, chip), assumptions.slice);
  if (backend.pool_share) assumptions.pool_share = backend.pool_share(chip, hardware.sharers);
  assumptions.build = build_of(recipe, assumptions.slice);
  assumptions.lane = lane_on(assumptions.slice, recipe);
  if (backend.plan_may_unroll && backend.plan_may_unroll(recipe, chip)) {
    recipe::Recipe unrolled = recipe;
    unrolled.xla.loops = recipe::XlaLoops::off;
    assumptions.unrolled = fit::UnrolledLane{lane_on(assumptions.slice, unrolled), features_on(unrolled, chip)};
  }
  catalog.use([&](const catalog::Catalog& open) {
    const auto read = [&](const fit::Lane& lane, auto& peaks, auto& steps) {
      peaks = open.samples(fit::to_text(lane), catalog::kPeakBytes, assumptions.build);
      steps = open.samples(fit::to_text(lane), catalog::kStepSeconds, assumptions.build);
    };
    read(assumptions.lane, assumptions.peaks, assumptions.steps);
    if (auto& unrolled = assumptions.unrolled) read(unrolled->lane, unrolled->peaks, unrolled->steps);
  });
  return assumptions;
}

fit::Assumptions assumptions_for(const recipe::Recipe& recipe, hw::Slice slice, UsersCatalog& catalog) {
  const runtime::TargetMesh mesh = runtime::mesh_here(recipe::run_request(recipe), slice.devices());
  return assumptions_for(recipe, {.slice = std::move(slice)}, catalog, mesh);
}

}  // namespace megacpp::launch
