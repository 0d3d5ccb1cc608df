// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "megacpp/core/base/suggest.h"
#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/schema/docs_of.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/optim/schedule.h"
#include "megacpp/program/recipe/backend_names.h"
#include "megacpp/program/recipe/letters.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/synonyms.h"

namespace megacpp::recipe {
namespace {

using namespace schema;  // ranges and limits, in the words of schema.inc

// Keys of older recipes.
struct RenamedKey {
  std::string_view old_path, path;
};
constexpr RenamedKey kRenamedKeys[] = {{"layout.lane", "layout.policy"}};

std::string family_titles() {
  std::vector<std::string> titles;
  for (const blocks::BlockDef& def : blocks::all_blocks())
    titles.push_back(fmt::format("{} {}", def.letter, def.title));
  return fmt::format("{}", fmt::join(titles, ", "));
}

void add_family_keys(std::vector<Key>& list) {
  for (const blocks::BlockDef& def : blocks::all_blocks())
    for (const blocks::ConfigKey& own : def.keys) {
      schema::KeySpec spec = own;
      spec.path = fmt::format("model.{}.{}", def.name, own.path);
      list.push_back({std::move(spec), [letter = def.letter, member = own.member](Recipe& recipe) -> Member {
                        return member(recipe.model.families.at(letter));
                      }});
    }
}

void add_recompute_keys(std::vector<Key>& list) {
  for (const blocks::BlockDef& def : blocks::all_blocks())
    list.push_back({schema::mode<RecomputeLevel>(
                        recompute_key(def.letter),
                        fmt::format("What {} blocks recompute in the backward pass instead of keeping.", def.letter)),
                    [letter = def.letter](Recipe& recipe) { return member_at(&recipe.train.recompute.at(letter)); }});
}

Range one_of_backends() {
  Range range;
  for (const BackendName& backend : backend_names()) range.choices.emplace_back(backend.name);
  return range;
}

Range one_of_precisions() { return {.choices = ir::precision_names()}; }
Range one_of_optimizers() { return {.choices = optim::optimizer_names()}; }
Range one_of_schedules() { return {.choices = optim::schedule_names()}; }

std::string all_rung_names() { return fmt::format("{}", fmt::join(rung_names(), ", ")); }
std::string parameter_kinds() { return fmt::format("{}", fmt::join(blocks::kParameterKinds, ", ")); }

std::vector<Key> make_keys() {
  std::vector<Key> list;
#define MEGACPP_KEY(path, member, kind, range, doc) \
  list.push_back({{path, Kind::kind, range, doc}, [](Recipe& recipe) { return member_at(&recipe.member); }});
#define MEGACPP_MODE(path, member, doc)                                                        \
  list.push_back({schema::mode<std::remove_reference_t<decltype(Recipe().member)>>(path, doc), \
                  [](Recipe& recipe) { return member_at(&recipe.member); }});
#define MEGACPP_FAMILY_KEYS() add_family_keys(list);
#define MEGACPP_RECOMPUTE_KEYS() add_recompute_keys(list);
#include "megacpp/program/recipe/schema.inc"
#undef MEGACPP_KEY
#undef MEGACPP_MODE
#undef MEGACPP_FAMILY_KEYS
#undef MEGACPP_RECOMPUTE_KEYS
  return list;
}

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  for (const Key& key : keys()) {
    for (size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
      const std::string section = key.path.substr(0, dot);
      if (std::find(paths.begin(), paths.end(), section) == paths.end()) paths.push_back(section);
    }
    paths.push_back(key.path);
  }
  return paths;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const Key* find_key(std::string_view path) {
  for (const Key& key : keys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

bool is_section(std::string_view path) {
  const std::string prefix = std::string(path) + ".";
  return std::any_of(keys().begin(), keys().end(), [&](const Key& key) { return key.path.rfind(prefix, 0) == 0; });
}

std::optional<char> family_of(const Key& key) {
  for (const blocks::BlockDef& def : blocks::all_blocks())
    if (key.path.starts_with(fmt::format("model.{}.", def.name))) return def.letter;
  return std::nullopt;
}

std::string suggest_key(std::string_view unknown) {
  for (const RenamedKey& renamed : kRenamedKeys)
    if (renamed.old_path == unknown) return fmt::format("it is '{}' now: rename it", renamed.path);
  // A right name in the wrong section is likelier than a near spelling.
  for (const Key& key : keys()) {
    if (last_word(key.path) == last_word(unknown)) return "did you mean '" + key.path + "'?";
  }
  if (const auto path = key_of_synonym(last_word(unknown))) {
    const std::string_view section = unknown.substr(0, unknown.size() - last_word(unknown).size());
    const std::string in_section = fmt::format("{}{}", section, last_word(*path));
    const bool is_there = !section.empty() && find_key(in_section) != nullptr;
    return fmt::format("did you mean '{}'?", is_there ? in_section : *path);
  }
  return base::did_you_mean(unknown, all_paths(), "see the recipe keys in the documentation");
}

bool is_required(const Key& key) {
  return !contains(key.range, member_of(key, Recipe())) || key.path == "name" || key.path == "model.pattern";
}

std::string key_table() {
  const Recipe defaults;
  std::string table = "| key | kind | default | range | meaning |\n| --- | --- | --- | --- | --- |\n";
  const auto is_last_of = [](const Key& key, std::string_view section) {
    return key.path.starts_with(section) && (&key == &keys().back() || !(&key + 1)->path.starts_with(section));
  };
  for (const Key& key : keys()) {
    const Member member = member_of(key, defaults);
    table += schema::table_row(key, is_required(key) ? "required" : "`" + value_text(member) + "`");
    if (is_last_of(key, "model.")) table += letter_rows();
    if (is_last_of(key, "train.recompute.")) table += letter_recompute_row();
  }
  return table;
}

}  // namespace megacpp::recipe
