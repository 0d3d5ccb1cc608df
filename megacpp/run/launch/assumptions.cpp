// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/assumptions.h"

#include <algorithm>
#include <cmath>

#include "megacpp/hardware/fit/reserved_bytes.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/run/launch/build.h"

namespace megacpp::launch {

hw::Slice slice_named(const std::string& name, std::string_view backend) {
  hw::Slice slice = hw::parse_target(
      name, {.host_rates = [&] { return runtime::backend_on(hw::ChipKind::host, backend).host_rates.kept(); }});
  slice.chip = hw::rates_by(slice.chip, runtime::backend_on(slice.chip.kind, backend).name);
  return slice;
}

namespace {

// Whether blocks are loops is the plugin's matter where the recipe leaves it open: that of the hardware, which a launch
// there names.
recipe::Recipe with_plugin_for(hw::ChipKind kind, recipe::Recipe recipe) {
  if (kind == hw::ChipKind::gpu && recipe.xla.plugin == recipe::Xla{}.plugin) recipe.xla.plugin = "cuda";
  return recipe;
}

// On GPUs and TPUs a step in loops and an unrolled one reserve and take so different amounts that neither says anything
// of the other. On TPUs loops are what every recipe gets unless it or a plan says otherwise: their lane names none.
fit::LaneLoops loops_on(hw::ChipKind kind, const runtime::Backend& backend, const recipe::Recipe& recipe) {
  if (kind == hw::ChipKind::host || !backend.emits_stablehlo) return fit::LaneLoops::any;
  const bool has_loops = recipe::has_block_loops(with_plugin_for(kind, recipe));
  if (kind == hw::ChipKind::gpu) return has_loops ? fit::LaneLoops::on : fit::LaneLoops::off;
  return has_loops || !recipe::has_repeated_blocks(recipe.model) ? fit::LaneLoops::any : fit::LaneLoops::off;
}

/// What plans of TPUs may take instead of loops, where a rule says what unrolled blocks need.
bool may_be_unrolled(const recipe::Recipe& recipe, const hw::Chip& chip) {
  return chip.kind == hw::ChipKind::tpu && recipe.xla.loops == recipe::XlaLoops::automatic &&
         recipe::has_repeated_blocks(recipe.model) && fit::has_reserved_rule(recipe, chip);
}

std::vector<std::string> backend_features(const runtime::Backend& named, hw::ChipKind kind,
                                          const recipe::Recipe& recipe) {
  return named.features ? named.features(recipe::run_request(with_plugin_for(kind, recipe)))
                        : std::vector<std::string>();
}

bool has_dropless_experts(const recipe::Model& model) {
  return std::ranges::any_of(recipe::block_types(model), [](const recipe::BlockType& type) {
    const auto* const config = type.config.get_if<blocks::FeedForward>();
    return config != nullptr && config->experts > 0 && config->is_dropless();
  });
}

// Of dropless experts XLA gets a product for each with a masked copy of all rows, which no plan has: one H200 held 1.45
// and 1.59 times the planned peak, and no rule for what is reserved knows of it.
constexpr double kDroplessGapsMost = 1.65;

// Only a compiler that places buffers itself leaves gaps that no plan knows of.
void set_gaps(hw::Chip& chip, const runtime::Backend& backend, const fit::Lane& lane, const recipe::Model& model) {
  const bool is_dropless = has_dropless_experts(model);
  if (!backend.emits_stablehlo || is_dropless) chip.reserved_per_alive = 0;
  if (!backend.emits_stablehlo)
    chip.gaps_most = chip.gaps_least = 1;
  else if (is_dropless)
    chip.gaps_most = std::max({chip.gaps_most, chip.loops_gaps_most, kDroplessGapsMost});
  else if (lane.loops == fit::LaneLoops::on && chip.loops_gaps_most > 0)
    chip.gaps_most = chip.loops_gaps_most;
}

// XLA serves programs out of a pool, on GPUs. A chip's own limit above it limits nothing.
void set_pool(fit::Assumptions& assumptions, const runtime::Backend& backend, int64_t sharers) {
  hw::Chip& chip = assumptions.slice.chip;
  if (chip.kind != hw::ChipKind::gpu || !backend.emits_stablehlo || chip.usable_bytes == 0) return;
  chip.usable_bytes = std::llround(hw::xla_pool_share(sharers) * static_cast<double>(chip.usable_bytes));
  const int64_t pool = hw::device_of(chip).usable_bytes;
  for (int64_t& limit : assumptions.limits)
    if (limit > pool) limit = 0;
}

}  // namespace

fit::Lane lane_on(const hw::Slice& slice, const recipe::Recipe& recipe) {
  const runtime::Backend& backend = runtime::backend_on(slice.chip.kind, recipe.backend);
  return {.backend = backend.name,
          .hardware = slice.chip.name,
          .placement = backend.placement ? std::optional(backend.placement(recipe::run_request(recipe))) : std::nullopt,
          .loops = loops_on(slice.chip.kind, backend, recipe)};
}

fit::Assumptions assumptions_for(const recipe::Recipe& recipe, runtime::FoundHardware hardware, UsersCatalog& catalog,
                                 const runtime::TargetMesh& mesh) {
  const runtime::Backend& backend = runtime::backend_on(hardware.slice.chip.kind, recipe.backend);
  const runtime::Backend& named = runtime::backend_named(recipe.backend);
  const int64_t devices = hardware.slice.devices();
  const hw::ChipKind kind = hardware.slice.chip.kind;
  fit::Assumptions assumptions{.slice = std::move(hardware.slice),
                               .has_rates = hardware.has_rates,
                               .kernels = runtime::estimate_target(backend, recipe::run_request(recipe), mesh),
                               .lane = {},
                               .compiled_by_xla = backend.emits_stablehlo,
                               .fused_attention = recipe.xla.attention == recipe::XlaAttention::fused,
                               .kernels_run_there = backend.estimates_with.empty(),
                               .cannot_run = backend.cannot_run,
                               .features = backend_features(named, kind, recipe),
                               .limits = recipe::chip_limits(recipe.hardware, devices),
                               .build = {}};
  assumptions.slice.chip = hw::rates_by(assumptions.slice.chip, backend.name);
  assumptions.build = build_of(recipe, assumptions.slice);
  assumptions.lane = lane_on(assumptions.slice, recipe);
  set_gaps(assumptions.slice.chip, backend, assumptions.lane, recipe.model);
  set_pool(assumptions, backend, hardware.sharers);
  if (may_be_unrolled(recipe, assumptions.slice.chip)) {
    recipe::Recipe unrolled = recipe;
    unrolled.xla.loops = recipe::XlaLoops::off;
    assumptions.unrolled =
        fit::UnrolledLane{lane_on(assumptions.slice, unrolled), backend_features(named, kind, unrolled)};
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
