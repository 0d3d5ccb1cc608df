// SPDX-License-Identifier: Apache-2.0
#include "megacpp/receipt/recipe_header.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/fit/signature.h"
#include "megacpp/recipe/block_types.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::receipt {
namespace {

/// Families are never ranked against each other.
std::string family_of(const recipe::Model& model) {
  const auto is_recurrent = [](const recipe::BlockType& type) { return type.traits().is_recurrent; };
  if (std::ranges::any_of(recipe::block_types(model), is_recurrent)) return "hybrid";
  return recipe::has_experts(model) ? "sparse" : "dense";
}

std::string recompute_of(const recipe::Recipe& recipe) {
  std::string text;
  for (const char letter : recipe::recompute_letters(recipe.model))
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", letter, recipe::recompute_level(recipe, letter));
  return text;
}

std::string buckets_of(const recipe::Layout& layout) {
  return layout.bucket_bytes == 0 ? "as the policy has them" : fmt::format("{} bytes", layout.bucket_bytes);
}

}  // namespace

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
  program.precision = train.precision;
  program.layout = fit::layout_text(recipe);
  program.recompute = recompute_of(recipe);
  program.optimizer = recipe.optimizer.name;
  program.overlap = fmt::format("prefetch {}", recipe.layout.prefetch);
  program.buckets = buckets_of(recipe.layout);
  return header;
}

}  // namespace megacpp::receipt
