// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/signature.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/hash.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

/// Every key of the model that its pattern reads.
std::string model_text(const Recipe& recipe, const std::vector<recipe::BlockType>& types) {
  const auto is_read = [&types](char family) {
    return std::ranges::any_of(types, [family](const recipe::BlockType& type) { return type.letter == family; });
  };
  std::string text;
  for (const recipe::Key& key : recipe::keys()) {
    const auto family = recipe::family_of(key);
    const bool is_of_model =
        key.path.starts_with("model.") || (recipe.model.lora.is_on() && key.path.starts_with("lora."));
    if (!is_of_model || (family && !is_read(*family))) continue;
    text += key.path + ": " + recipe::value_text(recipe::member_of(key, recipe)) + "\n";
  }
  for (const recipe::BlockType& type : types) {
    if (type.is_familys_own()) continue;
    text += fmt::format("model.letters.{}: {}\n", type.letter, type.family->name);
    for (const blocks::ConfigKey& key : type.family->keys)
      text += fmt::format("  {}: {}\n", key.path, recipe::value_text(recipe::member_of(key, type.config)));
  }
  return text;
}

std::string features_text(const Recipe& recipe, const std::vector<recipe::BlockType>& types,
                          std::span<const std::string> of_backend) {
  std::vector<std::string> words;
  const auto add = [&words](bool is_on, std::string word) {
    if (is_on) words.push_back(std::move(word));
  };
  add(recipe.model.z_loss > 0, "z_loss");
  for (const recipe::BlockType& type : types)
    for (const std::string& word : type.traits().features) add(std::ranges::find(words, word) == words.end(), word);
  for (const recipe::BlockType& type : types)
    add(!type.is_familys_own(), fmt::format("letter.{}={}", type.letter, type.family->letter));
  add(recipe.model.lora.is_on(), fmt::format("lora={}", recipe.model.lora.rank));
  add(recipe.optimizer.name != recipe::Optimizer{}.name, "optimizer=" + recipe.optimizer.name);
  words.insert(words.end(), of_backend.begin(), of_backend.end());
  return fmt::format("{}", fmt::join(words, " "));
}

std::string shape_text(const Recipe& recipe) {
  const recipe::Train& train = recipe.train;
  std::string text = fmt::format("batch={} sequence={} micro_steps={} precision={}", train.batch, train.sequence,
                                 train.micro_steps, ir::dtype_name(train.precision));
  for (const char letter : recipe::recompute_letters(recipe.model))
    // Estimates have nothing left at auto; a recipe that was not planned for hardware keeps everything, as none does.
    if (const recipe::RecomputeLevel level = recipe::recompute_level(recipe, letter); !recipe::keeps_everything(level))
      text += fmt::format(" recompute.{}={}", letter, base::text_of(level));
  return text;
}

std::string hardware_text(const std::string& name, const recipe::Hardware& hardware) {
  std::string text = name;
  if (hardware.limit.bytes > 0) text += " limit " + to_string(hardware.limit);
  for (const std::string& limit : hardware.limits) text += " chip " + limit;
  for (const std::string& fault : hardware.fail_allocation) text += " fault " + fault;
  return text;
}

}  // namespace

std::string layout_text(const Recipe& recipe) {
  static const std::set<std::string_view> kNoTrace = {"layout.chips",  // the product of the degrees
                                                      "layout.max_replicated_bytes"};
  Recipe resolved = recipe;
  resolved.layout.zero = plan::zero_level(resolved.layout);
  const Recipe defaults;
  std::vector<std::string> words;
  for (const recipe::Key& key : recipe::keys()) {
    if (!key.path.starts_with("layout.") || kNoTrace.contains(key.path)) continue;
    const std::string value = recipe::value_text(recipe::member_of(key, resolved));
    const bool always = key.path == "layout.policy" || key.path == "layout.zero";
    if (always || value != recipe::value_text(recipe::member_of(key, defaults)))
      words.push_back(key.path.substr(std::string_view("layout.").size()) + "=" + value);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string subject_text(const Recipe& recipe) {
  return fmt::format("{} (pattern {}, depth {}, hidden {}), batch {}, sequence {}, {}", recipe.name,
                     recipe.model.pattern, recipe.model.depth, recipe.model.hidden, recipe.train.batch,
                     recipe.train.sequence, layout_text(recipe));
}

catalog::Signature signature_of(const Recipe& recipe, const std::string& hardware, const catalog::Build& build,
                                std::span<const std::string> backend_features) {
  const std::vector<recipe::BlockType> types = recipe::block_types(recipe.model);
  return {.build = build,
          .hardware = hardware_text(hardware, recipe.hardware),
          .model = recipe.name,
          .model_hash = base::hash_text(model_text(recipe, types)),
          .layout = layout_text(recipe),
          .features = features_text(recipe, types, backend_features),
          .shape = shape_text(recipe)};
}

}  // namespace megacpp::fit
