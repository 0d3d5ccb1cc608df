// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/recipe_header.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "megacpp/hardware/fit/signature.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/ignored_keys.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::receipt {
namespace {

/// Families are never ranked against each other.
std::string family_of(const recipe::Model& model) {
  const auto is_recurrent = [](const recipe::BlockType& type) { return type.traits().is_recurrent; };
  if (std::ranges::any_of(recipe::block_types(model), is_recurrent)) return "hybrid";
  return recipe::has_experts(model) ? "sparse" : "dense";
}

/// Who decides where the backend does not read the key; nothing where it does.
std::optional<std::string> decided_elsewhere(const recipe::Recipe& recipe, const std::string& key) {
  const recipe::IgnoredKey* const line =
      recipe::line_ignoring(runtime::backend_named(recipe.backend).ignores, key, recipe, recipe::Use::run);
  return line == nullptr ? std::nullopt : std::optional(line->decides);
}

std::string overlap_of(const recipe::Recipe& recipe) {
  return decided_elsewhere(recipe, "layout.prefetch").value_or(fmt::format("prefetch {}", recipe.layout.prefetch));
}

std::string buckets_of(const recipe::Recipe& recipe) {
  const int64_t bytes = recipe.layout.bucket_bytes;
  return decided_elsewhere(recipe, "layout.bucket_bytes")
      .value_or(bytes == 0 ? "as the policy has them" : fmt::format("{} bytes", bytes));
}

}  // namespace

std::string recompute_text(const recipe::Recipe& recipe, const recipe::Recipe& requested) {
  std::string text;
  for (const char letter : recipe::recompute_letters(recipe.model)) {
    using recipe::RecomputeLevel;
    const RecomputeLevel level = recipe::recompute_level(recipe, letter);
    const bool is_chosen =
        recipe::recompute_level(requested, letter) == RecomputeLevel::automatic && level != RecomputeLevel::automatic;
    text +=
        fmt::format("{}{}={}{}", text.empty() ? "" : " ", letter, is_chosen ? kAutoChoice : "", base::text_of(level));
  }
  return text;
}

Header recipe_header(const recipe::Recipe& recipe) {
  const recipe::Model& model = recipe.model;
  const recipe::Train& train = recipe.train;
  Header header;
  header.model = {.name = recipe.name,
                  .family = family_of(model),
                  .pattern = model.pattern,
                  .depth = model.depth,
                  .hidden = model.hidden,
                  .vocab = model.vocab};
  header.batch = {.batch = train.batch,
                  .sequence = train.sequence,
                  .micro_steps = train.micro_steps,
                  .tokens = train.batch * train.sequence * train.micro_steps};
  Program& program = header.program;
  program.backend = recipe.backend;
  program.precision = ir::dtype_name(train.precision);
  program.layout = fit::layout_text(recipe);
  program.recompute = recompute_text(recipe, recipe);
  program.optimizer = recipe.optimizer.name;
  program.overlap = overlap_of(recipe);
  program.buckets = buckets_of(recipe);
  return header;
}

}  // namespace megacpp::receipt
