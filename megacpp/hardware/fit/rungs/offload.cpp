// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {
namespace {

// State first: it costs time in the update alone.
std::vector<plan::Changes> more_to_the_host(const recipe::Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  if (layout.offloads_state() && layout.offloads_activations()) return {};
  if (layout.offload != recipe::Offload::none) return {{{"layout.offload", "all"}}};
  return {{{"layout.offload", "optimizer"}}, {{"layout.offload", "activations"}}};
}

}  // namespace

Rung offload_rung() {
  return {
      .name = "offload",
      .does = "keep the optimizer's state, then activations too, in the host's memory: slower, with the same result",
      .may_reduce = {ir::Role::optimizer, ir::Role::activation, ir::Role::temporary},
      .keys = {"layout.offload"},
      .needs = ir::Tier::host,
      .changes = more_to_the_host};
}

}  // namespace megacpp::fit
