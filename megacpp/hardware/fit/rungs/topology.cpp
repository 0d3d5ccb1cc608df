// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {
namespace {

// Half as many copies of the model, each spread over twice as many chips.
std::vector<plan::Changes> other_topologies(const recipe::Recipe& recipe) {
  const recipe::Layout& layout = recipe.layout;
  std::vector<plan::Changes> offers;
  const std::array<std::pair<const char*, int64_t>, 4> degrees = {
      {{"layout.tensor_parallel", layout.tensor_parallel},
       {"layout.expert_parallel", layout.expert_parallel},
       {"layout.context_parallel", layout.context_parallel},
       {"layout.pipeline_parallel", layout.pipeline_parallel}}};
  for (int64_t factor = 2; layout.data_parallel % factor == 0; factor *= 2)
    for (const auto& [key, degree] : degrees)
      offers.push_back(
          {change_to("layout.data_parallel", layout.data_parallel / factor), change_to(key, degree * factor)});
  return offers;
}

}  // namespace

Rung topology_rung() {
  return {.name = "topology",
          .does = "fewer copies of the model, each over more chips",
          .may_reduce = {ir::Role::weight, ir::Role::weight_copy, ir::Role::gradient, ir::Role::optimizer,
                         ir::Role::activation, ir::Role::temporary, ir::Role::collective, ir::Role::batch},
          .keys = {"layout.data_parallel", "layout.tensor_parallel", "layout.expert_parallel",
                   "layout.context_parallel", "layout.pipeline_parallel"},
          .offers = Offers::alternatives,
          .changes = other_topologies};
}

}  // namespace megacpp::fit
