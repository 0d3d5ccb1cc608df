// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/given_model.h"

#include <algorithm>
#include <array>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/letters.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::recipe {
namespace {

constexpr std::array<std::string_view, 12> kFreeKeys = {"model.init_std",
                                                        "model.z_loss",
                                                        "model.attention.document_mask",
                                                        "model.feed_forward.balance_loss",
                                                        "model.feed_forward.balance_over",
                                                        "model.feed_forward.z_loss",
                                                        "model.mamba.chunk",
                                                        "model.mamba.document_mask",
                                                        "model.mamba.dt_floor",
                                                        "model.mamba.dt_max",
                                                        "model.mamba.dt_min",
                                                        "model.recurrent.document_mask"};

/// What a key is in the recipe and in the given model.
struct Values {
  std::string recipe, given;
};

bool has_family(const Model& model, char letter) {
  return std::ranges::any_of(block_types(model), [&](const BlockType& type) { return type.family->letter == letter; });
}

/// Nothing for keys that no block of the given model reads.
std::optional<Values> values_of_key(const Key& key, const Recipe& recipe, const Model& given) {
  const auto family = family_of(key);
  if (family && !has_family(given, *family)) return std::nullopt;
  Recipe of_given;
  of_given.model = given;
  return Values{value_text(member_of(key, recipe)), value_text(member_of(key, of_given))};
}

/// Nothing for letters that the given model has no block of.
std::optional<Values> values_of_letter(const LetterPath& path, const Recipe& recipe, const Model& given) {
  const auto own = recipe.model.letters.find(path.letter[0]);
  const auto theirs = given.letters.find(path.letter[0]);
  if (own == recipe.model.letters.end() || theirs == given.letters.end()) return std::nullopt;
  if (path.to == LetterPath::To::family) return Values{own->second.family, theirs->second.family};
  const auto text = [&](const Letter& letter) {
    const auto at = letter.settings.find(path.setting);
    return at == letter.settings.end() ? std::string("that of its family") : at->second;
  };
  return Values{text(own->second), text(theirs->second)};
}

std::optional<Values> values_of(const std::string& path, const Recipe& recipe, const Model& given) {
  if (const Key* key = find_key(path))
    return logits_depend_on(path) ? values_of_key(*key, recipe, given) : std::nullopt;
  const LetterPath letter = letter_path(path);
  if (letter.to == LetterPath::To::family) return values_of_letter(letter, recipe, given);
  if (letter.to != LetterPath::To::setting || !logits_depend_on("model." + letter.setting)) return std::nullopt;
  return values_of_letter(letter, recipe, given);
}

/// Patterns may be written otherwise, and cut into other stages of a pipeline.
bool has_same_blocks(const Model& ours, const Model& given) {
  return (ours.pattern == given.pattern && ours.depth == given.depth) || expand(ours).letters == expand(given).letters;
}

}  // namespace

bool logits_depend_on(std::string_view key) { return std::ranges::find(kFreeKeys, key) == kFreeKeys.end(); }

void require_given_model(const Recipe& recipe, const Origins& origins, const GivenModel& given) {
  const bool same_blocks = has_same_blocks(recipe.model, given.model);
  for (const auto& [path, origin] : origins) {
    // Adapters may be added to a model, but not changed.
    const bool is_of_adapters = given.model.lora.is_on() && path.starts_with("lora.");
    if (!path.starts_with("model.") && !is_of_adapters) continue;
    if (same_blocks && (path == "model.pattern" || path == "model.depth")) continue;
    const std::optional<Values> values = values_of(path, recipe, given.model);
    MEGACPP_REQUIRE(!values || values->recipe == values->given, E1205,
                    {.where = place(origins, path),
                     .got = values->recipe,
                     .wanted = values->given + ", as in " + given.source,
                     .next = "leave the key out: the model is that of the weights"});
  }
}

}  // namespace megacpp::recipe
