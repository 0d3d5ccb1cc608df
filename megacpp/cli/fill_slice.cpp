// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/fill_slice.h"

#include <optional>
#include <string>

#include "megacpp/base/error.h"
#include "megacpp/cli/layout_report.h"
#include "megacpp/fit/on_paper.h"

namespace megacpp::cli {
namespace {

bool passes_gates(const recipe::Recipe& recipe) {
  try {
    plan::make_plan(recipe);
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

/// The least sharing of sequences, by heads and by tokens, that a slice can be filled with.
std::optional<plan::Changes> sharing_changes(const recipe::Recipe& recipe, int64_t devices) {
  for (int64_t sharing = 2; sharing <= devices; sharing *= 2)
    for (int64_t tensor = sharing; tensor >= 1; tensor /= 2) {
      const plan::Changes changes = {{"layout.tensor_parallel", std::to_string(tensor)},
                                     {"layout.context_parallel", std::to_string(sharing / tensor)}};
      const recipe::Recipe shared = fit::with_changes(recipe, changes);
      const plan::Changes filling = fit::filling_changes(shared, devices);
      if (!filling.empty() && passes_gates(fit::with_changes(shared, filling))) return changes;
    }
  return std::nullopt;
}

base::Problem explained(const base::Error& error, const recipe::Recipe& recipe, const FilledRecipe& filled,
                        const hw::Slice& slice) {
  base::Problem problem = error.problem();
  problem.where += ", with " + changes_text(filled.changes) + " to fill " + slice.name;
  if (error.code() != base::Code::E1405) return problem;
  const auto changes = sharing_changes(recipe, slice.devices());
  const recipe::Layout& layout = filled.recipe.layout;
  problem.next = "set train.batch: " + std::to_string(layout.data_parallel * layout.expert_parallel) +
                 (changes ? ", or let chips share sequences: " + changes_text(*changes) : ", or take fewer chips");
  return problem;
}

}  // namespace

FilledRecipe fill_slice(const recipe::Recipe& recipe, const hw::Slice& slice) {
  FilledRecipe filled{.recipe = recipe, .changes = fit::filling_changes(recipe, slice.devices()), .plan = {}};
  filled.recipe = fit::with_changes(recipe, filled.changes);
  try {
    filled.plan = plan::make_plan(filled.recipe);
  } catch (const base::Error& error) {
    if (filled.changes.empty()) throw;
    base::raise(error.code(), explained(error, recipe, filled, slice));
  }
  return filled;
}

}  // namespace megacpp::cli
