// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compare/differences.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/receipt/header_fields.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/recipe/print.h"

namespace megacpp::compare {
namespace {

/// Header fields whose names begin so, and the beginnings of recipe keys that they come from.
struct Origin {
  std::string_view fields;
  std::vector<std::string_view> keys;
};

// The first line that fits a field counts. Fields without a key come from the machine and the program.
const std::vector<Origin>& origins() {
  static const std::vector<Origin> table = {
      {"hardware.processor", {}},
      {"hardware.threads", {"layout.", "train.threads", "backend"}},
      {"hardware.", {"layout.", "hardware.", "backend", "xla.plugin"}},
      {"model.", {"model.", "lora."}},
      {"batch.data", {"data."}},
      {"batch.", {"train.batch", "train.sequence", "train.micro_steps"}},
      {"program.backend", {"backend"}},
      {"program.lane", {"backend", "hardware.", "xla.placement", "xla.plugin"}},
      {"program.path", {"backend", "layout.", "xla."}},
      {"program.precision", {"train.precision"}},
      {"program.layout", {"layout."}},
      // What is left to planning follows from all that decides how much memory there is.
      {"program.recompute", {"train.recompute", "train.batch", "train.sequence", "layout.", "hardware.", "model."}},
      {"program.optimizer", {"optimizer."}},
      {"program.overlap", {"layout."}},
      {"program.buckets", {"layout."}},
      {"program.features", {"model.", "lora.", "optimizer.", "backend", "xla."}},
      {"program.flags", {"backend", "xla."}},
      {"versions.platform", {"backend", "xla.plugin"}},
  };
  return table;
}

bool feeds(std::string_view key, std::string_view field) {
  for (const Origin& origin : origins())
    if (field.starts_with(origin.fields))
      return std::ranges::any_of(origin.keys, [key](std::string_view begin) { return key.starts_with(begin); });
  return false;
}

// A name stands for nothing: the model's hash says whether it is another one.
bool is_label(std::string_view field) { return field == "model.name"; }

using Settings = std::map<std::string, std::string>;

// Empty where the receipt has no recipe, or one of a version whose keys this one does not know.
Settings settings_of(const receipt::Receipt& receipt) {
  Settings settings;
  if (receipt.recipe.empty()) return settings;
  try {
    for (const recipe::Setting& setting :
         recipe::settings_of(recipe::parse(receipt.recipe, "recipe of " + receipt.run)))
      settings[setting.key] = setting.value;
  } catch (const base::Error&) {
    settings.clear();
  }
  return settings;
}

std::vector<Change> changed_keys(const receipt::Receipt& baseline, const receipt::Receipt& other) {
  const Settings before = settings_of(baseline), after = settings_of(other);
  std::vector<Change> changes;
  if (before.empty() || after.empty()) return changes;
  const auto value = [](const Settings& settings, const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::string() : found->second;
  };
  Settings all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [key, ignored] : all)
    if (value(before, key) != value(after, key)) changes.push_back({key, value(before, key), value(after, key)});
  return changes;
}

std::vector<FieldChange> changed_fields(const receipt::Header& baseline, const receipt::Header& other) {
  const std::vector<receipt::HeaderField> before = receipt::header_fields(baseline),
                                          after = receipt::header_fields(other);
  MEGACPP_CHECK(before.size() == after.size()) << "headers have the same fields";
  std::vector<FieldChange> changes;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i]) changes.push_back({{before[i].name, before[i].value, after[i].value}, {}});
  return changes;
}

}  // namespace

Differences differences_of(const receipt::Receipt& baseline, const receipt::Receipt& other) {
  Differences differences;
  differences.fields = changed_fields(baseline.header, other.header);
  differences.has_other_family = baseline.header.model.family != other.header.model.family;
  for (const Change& key : changed_keys(baseline, other)) {
    bool moves_a_field = false;
    for (FieldChange& field : differences.fields) {
      if (!feeds(key.name, field.name)) continue;
      moves_a_field = true;
      if (field.follows_from.empty()) field.follows_from = key.name;
    }
    (moves_a_field ? differences.axes : differences.unmeasured).push_back(key);
  }
  for (const FieldChange& field : differences.fields)
    if (field.follows_from.empty() && !is_label(field.name)) differences.axes.push_back(field);
  return differences;
}

std::string to_text(const Change& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("(none)") : value; };
  return change.name + ": " + shown(change.baseline) + " -> " + shown(change.other);
}

}  // namespace megacpp::compare
