// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/planned.h"

#include <algorithm>

#include "megacpp/cli/print_log.h"
#include "megacpp/fit/estimate.h"
#include "megacpp/launch/assumptions.h"
#include "megacpp/recipe/recompute.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/runtime/cpu/host_rates.h"

namespace megacpp::cli {
namespace {

hw::Slice slice_of_train(const recipe::Recipe& recipe) {
  hw::HostRates rates = runtime::cpu::host_rates();
  rates.memory = std::min(rates.memory, runtime::cpu::available_memory_bytes());
  return launch::slice_here(recipe, rates);
}

}  // namespace

recipe::Recipe planned(const recipe::Recipe& recipe, const std::optional<hw::Slice>& slice,
                       const launch::CatalogChoice& catalog_choice) {
  const bool is_decided = std::ranges::none_of(recipe::recompute_letters(recipe.model), [&recipe](char letter) {
    return recipe::recompute_level(recipe, letter) == recipe::kAutoRecompute;
  });
  if (is_decided) return recipe;
  launch::UsersCatalog catalog(catalog_choice, catalog::Access::read);
  const fit::Estimate estimate =
      fit::make_estimate(recipe, launch::assumptions_for(recipe, slice ? *slice : slice_of_train(recipe), catalog));
  print_line({.topic = "recompute", .text = fit::to_text(estimate.recompute)});
  return estimate.recipe;
}

}  // namespace megacpp::cli
