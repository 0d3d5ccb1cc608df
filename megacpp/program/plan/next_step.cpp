// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/next_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::plan {
namespace {

using recipe::Recipe;

constexpr size_t kValuesPerSide = 64;    // of a degree that are tried
constexpr size_t kOffers = 4;            // that are printed
constexpr size_t kMostSteps = 10;        // gates that are met one after the other
constexpr int64_t kTriesPerDepth = 200;  // layouts
constexpr size_t kTriesPerChoice = 3;    // where a way is one of several steps

bool is_of_layout(const Change& change) { return change.key.starts_with("layout."); }

/// The recipe with the changes; none where a value is outside what its key or the model allows.
std::optional<Recipe> changed(const Recipe& recipe, const Changes& changes) {
  Recipe copy = recipe;
  try {
    recipe::apply_overrides(copy, overrides_of(changes));
    // Ranges are all that validation asks of the layout.
    if (!std::all_of(changes.begin(), changes.end(), is_of_layout)) recipe::validate(copy);
  } catch (const base::Error&) {
    return std::nullopt;
  }
  return copy;
}

/// A given number of chips follows degrees that change.
Changes with_chips(const Recipe& recipe, Changes changes) {
  const std::optional<Recipe> copy = changed(recipe, changes);
  if (!copy || copy->layout.chips == 0) return changes;
  const int64_t product = product_of_degrees(copy->layout);
  if (product == copy->layout.chips || product == product_of_degrees(recipe.layout)) return changes;
  return merged(std::move(changes), {{"layout.chips", std::to_string(product)}});
}

class Search {
 public:
  Search(std::span<const Gate> gates, const Recipe& refused, Adjustable adjustable)
      : gates_(gates), refused_(refused), adjustable_(adjustable) {}

  std::string run() {
    const std::vector<Choice> choices = ways_out(refused_);
    std::vector<Changes> offers;
    for (const Choice& choice : choices)
      if (const std::optional<Changes> way = first_legal(choice); way && offers.size() < kOffers)
        if (std::find(offers.begin(), offers.end(), *way) == offers.end()) offers.push_back(*way);
    for (const bool with_farthest : {false, true})
      for (size_t steps = 2; offers.empty() && steps <= kMostSteps; ++steps) {
        seen_.clear();
        tries_left_ = kTriesPerDepth;
        tries_farthest_ = with_farthest;
        if (const std::optional<Changes> way = in_steps({}, refused_, steps)) offers.push_back(without_needless(*way));
      }
    return offers.empty() ? keys_text(choices) : offers_text(offers);
  }

 private:
  std::vector<Choice> ways_out(const Recipe& recipe) const {
    std::vector<Choice> choices = refusing(gates_, recipe)->ways_out(recipe);
    for (Choice& choice : choices)
      std::erase_if(choice, [this](const Changes& changes) {
        return adjustable_ == Adjustable::layout && !std::all_of(changes.begin(), changes.end(), is_of_layout);
      });
    return choices;
  }

  bool is_legal(const Changes& changes) const {
    const std::optional<Recipe> recipe = changed(refused_, changes);
    return recipe && refusing(gates_, *recipe) == nullptr;
  }

  std::optional<Changes> first_legal(const Choice& choice) const {
    for (const Changes& changes : choice) {
      Changes way = with_chips(refused_, changes);
      if (is_legal(way)) return way;
    }
    return std::nullopt;
  }

  /// Depth first over the ways out of whatever gate refuses next.
  std::optional<Changes> in_steps(const Changes& so_far, const Recipe& recipe, size_t steps) {
    std::vector<Choice> choices = ways_out(recipe);
    // Who asks for several things at once wants another layout rather than another run.
    std::stable_partition(choices.begin(), choices.end(), [](const Choice& choice) {
      return !choice.empty() && std::all_of(choice[0].begin(), choice[0].end(), is_of_layout);
    });
    for (const Choice& choice : choices)
      for (size_t i = 0; i < choice.size(); ++i) {
        const bool is_tried = i < kTriesPerChoice || (tries_farthest_ && i + 1 == choice.size());
        const Changes way = with_chips(refused_, merged(so_far, choice[i]));
        if (!is_tried || !seen_.insert({steps, text_of(way)}).second) continue;
        if (tries_left_-- <= 0) return std::nullopt;
        const std::optional<Recipe> next = changed(refused_, way);
        if (!next) continue;
        if (refusing(gates_, *next) == nullptr) return way;
        if (steps == 1) continue;
        if (const std::optional<Changes> found = in_steps(way, *next, steps - 1)) return found;
      }
    return std::nullopt;
  }

  Changes without_needless(Changes changes) const {
    for (size_t i = 0; i < changes.size();) {
      Changes fewer = changes;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (is_legal(fewer))
        changes = std::move(fewer);
      else
        ++i;
    }
    return changes;
  }

  static std::string text_of(const Changes& changes) {
    std::vector<std::string> parts;
    for (const Change& change : changes) parts.push_back(change.key + ": " + change.value);
    return fmt::format("{}", fmt::join(parts, " and "));
  }

  /// Neighbours that set the same key alone share its name.
  static std::string offers_text(const std::vector<Changes>& offers) {
    std::string text = "set " + text_of(offers[0]);
    for (size_t i = 1; i < offers.size(); ++i) {
      const Changes &before = offers[i - 1], &now = offers[i];
      const bool same_key = before.size() == 1 && now.size() == 1 && before[0].key == now[0].key;
      text += same_key ? " or " + now[0].value : ", or " + text_of(now);
    }
    return text;
  }

  static std::string keys_text(const std::vector<Choice>& choices) {
    std::vector<std::string> keys;
    for (const Choice& choice : choices)
      for (const Changes& changes : choice)
        for (const Change& change : changes)
          if (std::find(keys.begin(), keys.end(), change.key) == keys.end()) keys.push_back(change.key);
    if (keys.empty()) return "change another key of layout: no value of this one is legal with the rest";
    return fmt::format("change {} and other keys of layout together", fmt::join(keys, ", "));
  }

  std::span<const Gate> gates_;
  const Recipe& refused_;
  Adjustable adjustable_;
  std::set<std::pair<size_t, std::string>> seen_;
  int64_t tries_left_ = 0;
  bool tries_farthest_ = false;  // of each choice, which asks for least and so is refused by fewest
};

}  // namespace

Changes merged(Changes earlier, const Changes& later) {
  for (const Change& change : later) {
    const auto same =
        std::find_if(earlier.begin(), earlier.end(), [&](const Change& other) { return other.key == change.key; });
    if (same == earlier.end())
      earlier.push_back(change);
    else
      same->value = change.value;
  }
  return earlier;
}

std::vector<std::string> overrides_of(const Changes& changes) {
  std::vector<std::string> overrides;
  for (const Change& change : changes) overrides.push_back(change.key + "=" + change.value);
  return overrides;
}

Choice to_value(std::string_view key, std::string_view value) { return {{{std::string(key), std::string(value)}}}; }
Choice to_value(std::string_view key, int64_t value) { return to_value(key, std::to_string(value)); }

std::vector<Choice> near(std::string_view key, int64_t wish, int64_t highest,
                         const std::function<bool(int64_t)>& fits) {
  Choice below, above;
  const auto add = [&](Choice& choice, int64_t value) {
    if (fits(value)) choice.push_back({{std::string(key), std::to_string(value)}});
  };
  for (int64_t value = std::min(wish - 1, highest); value >= 1 && below.size() < kValuesPerSide; --value)
    add(below, value);
  if (below.size() == kValuesPerSide) add(below, 1);
  for (int64_t value = wish + 1; value <= highest && above.size() < kValuesPerSide; ++value) add(above, value);
  return {std::move(below), std::move(above)};
}

const Gate* refusing(std::span<const Gate> gates, const Recipe& recipe) {
  const auto at = std::find_if(gates.begin(), gates.end(),
                               [&recipe](const Gate& gate) { return gate.refuses(recipe).has_value(); });
  return at == gates.end() ? nullptr : &*at;
}

std::string next_step(std::span<const Gate> gates, const Recipe& refused, Adjustable adjustable) {
  return Search(gates, refused, adjustable).run();
}

}  // namespace megacpp::plan
