// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/fill_slice.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/estimate.h"

namespace megacpp::launch {
namespace {

FilledRecipe filled_by_data(const recipe::Recipe& recipe, int64_t devices) {
  plan::Changes changes = fit::filling_changes(recipe, devices);
  return {.planned = plan::PlannedRecipe(fit::with_changes(recipe, changes)), .changes = std::move(changes)};
}

/// The least sharing of sequences, by heads and by tokens, that the slice can be filled with.
std::optional<FilledRecipe> filled_by_sharing(const recipe::Recipe& recipe, int64_t devices) {
  for (int64_t sharing = 2; sharing <= devices; sharing *= 2)
    for (int64_t tensor = sharing; tensor >= 1; tensor /= 2) {
      plan::Changes changes = {{"layout.tensor_parallel", std::to_string(tensor)},
                               {"layout.context_parallel", std::to_string(sharing / tensor)}};
      try {
        FilledRecipe filled = filled_by_data(fit::with_changes(recipe, changes), devices);
        if (filled.planned.plan().chips != devices) continue;
        filled.changes.insert(filled.changes.begin(), changes.begin(), changes.end());
        return filled;
      } catch (const base::Error&) {
        // A gate refuses these degrees: the next ones may pass.
      }
    }
  return std::nullopt;
}

}  // namespace

std::string changes_text(const plan::Changes& changes) {
  std::vector<std::string> parts;
  for (const plan::Change& change : changes) parts.push_back(change.key + ": " + change.value);
  return fmt::format("{}", fmt::join(parts, ", "));
}

FilledRecipe fill_slice(const recipe::Recipe& recipe, const hw::Slice& slice) {
  try {
    return filled_by_data(recipe, slice.devices());
  } catch (const base::Error& error) {
    const plan::Changes changes = fit::filling_changes(recipe, slice.devices());
    if (changes.empty()) throw;
    const bool may_share = recipe.layout.tensor_parallel == 1 && recipe.layout.context_parallel == 1;
    if (error.code() == base::Code::E1405 && may_share)
      if (auto filled = filled_by_sharing(recipe, slice.devices())) return std::move(*filled);
    base::Problem problem = error.problem();
    problem.where += ", with " + changes_text(changes) + " to fill " + slice.name;
    base::raise(error.code(), std::move(problem));
  }
}

}  // namespace megacpp::launch
