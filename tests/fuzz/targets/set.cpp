// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

constexpr const char* kRecipe =
    "name: fuzz\n"
    "model:\n  pattern: AEMR\n  depth: 4\n  hidden: 64\n  vocab: 300\n"
    "  attention: {heads: 4, kv_heads: 2, head_dim: 16}\n"
    "  mamba: {heads: 4, groups: 2, head_dim: 8, state: 8}\n"
    "  feed_forward: {intermediate: 128}\n"
    "  recurrent: {heads: 4, width: 32}\n"
    "train: {batch: 8, sequence: 64, steps: 3}\n";

std::string key_of(Choices& choices) {
  constexpr std::array kLetterKeys = {"model.letters.D.family",
                                      "model.letters.D.feed_forward.experts",
                                      "train.recompute.D",
                                      "model.letters",
                                      "model.letters.D",
                                      "model",
                                      ""};
  if (choices.one_in(8)) return std::string(choices.any_of(kLetterKeys));
  if (choices.one_in(16)) return choices.text(24);
  return choices.any_of(recipe::keys()).path;
}

/// A value that the key may have, or anything.
std::string value_of(const std::string& path, Choices& choices) {
  const recipe::Key* const key = recipe::find_key(path);
  if (key != nullptr && !key->range.choices.empty() && !choices.one_in(3)) return choices.any_of(key->range.choices);
  if (key != nullptr && choices.one_in(4))  // a range may have no low end
    return std::to_string(static_cast<int64_t>(std::max(key->range.low, -1e9)) + choices.byte());
  return hostile_scalar(choices);
}

void set_keys(Bytes input) {
  Choices choices(input);
  std::vector<std::string> overrides;
  for (size_t count = 1 + choices.below(6); count > 0; --count) {
    const std::string key = key_of(choices);
    overrides.push_back(key + (choices.one_in(32) ? "" : "=") + value_of(key, choices));
  }
  const recipe::Recipe recipe = recipe::parse(kRecipe, "fuzz.yaml", overrides);
  require(recipe::parse(recipe::print(recipe), "printed.yaml") == recipe, "a printed recipe reads back as another");
  plan::make_plan(recipe);
}

}  // namespace

Target set_target() { return {.name = "set", .subject = "keys and values of --set", .weight = 100, .run = set_keys}; }

}  // namespace megacpp::fuzz
