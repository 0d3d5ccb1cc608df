// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/assumptions.h"

#include "megacpp/fit/lane.h"
#include "megacpp/launch/build.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/cpu/host_rates.h"

namespace megacpp::launch {

hw::Slice slice_named(const std::string& name) {
  return hw::parse_target(name, {.host_rates = [] { return runtime::cpu::host_rates(); }});
}

fit::Assumptions assumptions_for(const recipe::Recipe& recipe, hw::Slice slice, UsersCatalog& catalog,
                                 const collectives::Transport& transport) {
  const int64_t devices = slice.devices();
  fit::Assumptions assumptions{
      .slice = std::move(slice),
      .kernels = runtime::backend_named(recipe.backend).estimate_target(recipe, devices, transport),
      .limits = recipe::chip_limits(recipe.hardware, devices),
      .build = {}};
  assumptions.build = build_of(recipe, assumptions.slice);
  catalog.use([&](const catalog::Catalog& open) {
    assumptions.peaks =
        open.samples(fit::lane_name(assumptions.slice, recipe.backend), catalog::kPeakBytes, assumptions.build);
  });
  return assumptions;
}

}  // namespace megacpp::launch
