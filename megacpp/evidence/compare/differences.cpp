// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/differences.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/receipt/header_fields.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"

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
      {"hardware.chips", {"layout.", "hardware.", "backend", "xla.plugin"}},
      {"hardware.chip", {"hardware.", "backend", "xla.plugin"}},
      {"hardware.processor", {"hardware.", "backend", "xla.plugin"}},
      {"hardware.threads", {"layout.", "train.threads", "backend", "lineage.cores"}},
      {"hardware.", {"layout.", "hardware.", "backend", "xla.plugin"}},
      {"model.", {"model.", "lora."}},
      {"batch.data", {"data."}},
      {"batch.", {"train.batch", "train.sequence", "train.micro_steps"}},
      {"program.backend", {"backend"}},
      {"program.lane", {"backend", "hardware.", "xla.placement", "xla.plugin", "xla.loops"}},
      {"program.path", {"backend", "layout.", "xla."}},
      {"program.precision", {"train.precision"}},
      {"program.layout", {"layout."}},
      // What is left to planning follows from all that decides how much memory there is.
      {"program.recompute", {"train.recompute", "train.batch", "train.sequence", "layout.", "hardware.", "model."}},
      {"program.optimizer", {"optimizer."}},
      {"program.overlap", {"layout.", "backend", "xla."}},
      {"program.buckets", {"layout.", "backend", "xla."}},
      {"program.features", {"model.", "lora.", "optimizer.", "backend", "xla."}},
      {"program.flags", {"backend", "xla."}},
      {"versions.platform", {"backend", "xla.plugin"}},
  };
  return table;
}

bool begins_with_one_of(std::string_view name, const std::vector<std::string_view>& beginnings) {
  return std::ranges::any_of(beginnings, [name](std::string_view begin) { return name.starts_with(begin); });
}

// No key makes one processor of another: it only decides whether chips are virtual ones of a processor.
bool is_other_processor(const Change& field) {
  return field.name == "hardware.processor" && !field.baseline.empty() && !field.other.empty();
}

bool feeds(std::string_view key, const Change& field) {
  if (is_other_processor(field)) return false;
  for (const Origin& origin : origins())
    if (field.name.starts_with(origin.fields)) return begins_with_one_of(key, origin.keys);
  return false;
}

// What a step computes with these is the same work, whatever they say: they choose numbers, how long a run goes on,
// when it is refused, ended or changed, and what is kept for later.
bool is_without_time(std::string_view key) {
  static const std::vector<std::string_view> beginnings = {"name",
                                                           "train.steps",
                                                           "train.seed",
                                                           "data.seed",
                                                           "data.held_out",
                                                           "optimizer.lr",
                                                           "optimizer.min_lr_ratio",
                                                           "optimizer.beta",
                                                           "optimizer.eps",
                                                           "optimizer.warmup_steps",
                                                           "optimizer.schedule",
                                                           "optimizer.wsd.",
                                                           "train.wait_limit",
                                                           "layout.max_replicated_bytes",
                                                           "ladder.",
                                                           "checkpoint.keep",
                                                           "xla.cache"};
  return begins_with_one_of(key, beginnings);
}

// Where these have an effect, a field of the header has another value; where none has, they have none: xla.flags on
// backend cpu, sections of families that the model has no block of, a default that is spelt out.
bool is_shown_whole(std::string_view key) {
  static const std::vector<std::string_view> beginnings = {"backend",
                                                           "model.",
                                                           "lora.",
                                                           "layout.",
                                                           "hardware.",
                                                           "xla.",
                                                           "train.batch",
                                                           "train.sequence",
                                                           "train.micro_steps",
                                                           "train.global_batch",
                                                           "train.precision",
                                                           "train.recompute",
                                                           "train.threads",
                                                           "data.text",
                                                           "data.blend",
                                                           "optimizer.name"};
  return begins_with_one_of(key, beginnings);
}

// What a header field says of the environment already.
bool is_in_header(std::string_view fact) {
  static const std::vector<std::string_view> beginnings = {"megacpp", "processor", "plugin.", "gpu.driver"};
  return begins_with_one_of(fact, beginnings);
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

// Of facts that both runs have noted.
std::vector<Change> changed_facts(const receipt::Lineage& baseline, const receipt::Lineage& other) {
  std::vector<Change> changes;
  for (const receipt::LineageItem& before : baseline.items) {
    const auto after = std::ranges::find(other.items, before.name, &receipt::LineageItem::name);
    if (after == other.items.end() || after->live == before.live || is_in_header(before.name)) continue;
    changes.push_back({"lineage." + before.name, before.live, after->live});
  }
  return changes;
}

// Whether a key or a fact moved a field of the header, which then follows from it.
bool explains_fields(const Change& cause, std::vector<FieldChange>& fields) {
  bool moves_a_field = false;
  for (FieldChange& field : fields) {
    if (!feeds(cause.name, field)) continue;
    moves_a_field = true;
    if (field.follows_from.empty()) field.follows_from = cause.name;
  }
  return moves_a_field;
}

}  // namespace

Differences differences_of(const receipt::Receipt& baseline, const receipt::Receipt& other) {
  Differences differences;
  differences.fields = changed_fields(baseline.header, other.header);
  differences.has_other_family = baseline.header.model.family != other.header.model.family;
  for (const Change& key : changed_keys(baseline, other)) {
    const bool counts =
        !is_without_time(key.name) && (explains_fields(key, differences.fields) || !is_shown_whole(key.name));
    (counts ? differences.axes : differences.unmeasured).push_back(key);
  }
  const std::vector<Change> facts = changed_facts(baseline.lineage, other.lineage);
  for (const Change& fact : facts) explains_fields(fact, differences.fields);
  for (const Change& fact : facts) differences.fields.push_back({fact, {}});
  for (const FieldChange& field : differences.fields)
    if (field.follows_from.empty() && !is_label(field.name)) differences.axes.push_back(field);
  return differences;
}

std::string to_text(const Change& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("(none)") : value; };
  return change.name + ": " + shown(change.baseline) + " -> " + shown(change.other);
}

}  // namespace megacpp::compare
