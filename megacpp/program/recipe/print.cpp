// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/print.h"

#include <algorithm>
#include <set>

#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::recipe {
namespace {

/// Families whose section is printed: those of blocks in the pattern and those with a value that is not the default.
std::set<char> printed_families(const Recipe& recipe) {
  std::set<char> families;
  for (const BlockType& type : block_types(recipe.model)) families.insert(type.family->letter);
  const Recipe defaults;
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (family && value_text(member_of(key, recipe)) != value_text(member_of(key, defaults))) families.insert(*family);
  }
  return families;
}

/// What the recipe says of its own letters, each with its family and the settings it gives.
std::vector<Setting> letter_lines(const Model& model) {
  std::vector<Setting> lines;
  for (const auto& [letter, own] : model.letters) {
    const std::string path = std::string("model.letters.") + letter + ".";
    lines.push_back({path + "family", own.family});
    const blocks::Config config = config_of(model, letter);
    for (const blocks::ConfigKey& key : family_of(model, letter).keys) {
      const std::string setting = std::string(family_of(model, letter).name) + "." + key.path;
      if (own.settings.contains(setting)) lines.push_back({path + setting, value_text(member_of(key, config))});
    }
  }
  return lines;
}

std::vector<std::string> path_words(const std::string& path) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    words.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

std::vector<Setting> settings_of(const Recipe& recipe) {
  const std::set<char> families = printed_families(recipe);
  std::vector<Setting> lines;
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (!family || families.contains(*family)) lines.push_back({key.path, value_text(member_of(key, recipe))});
  }
  const auto insert_after = [&lines](std::string_view section, const std::vector<Setting>& more) {
    const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                   [section](const Setting& line) { return line.key.starts_with(section); });
    lines.insert(last.base(), more.begin(), more.end());
  };
  insert_after("model.", letter_lines(recipe.model));
  std::vector<Setting> levels;
  for (const auto& [letter, level] : recipe.train.recompute)
    if (recipe.model.letters.contains(letter))
      levels.push_back({recompute_key(letter), std::string(base::text_of(level))});
  insert_after("train.recompute.", levels);
  return lines;
}

std::string to_yaml(std::span<const Setting> settings) {
  std::string text;
  std::vector<std::string> open;  // sections the last printed key stands in
  for (const Setting& line : settings) {
    const std::vector<std::string> words = path_words(line.key);
    const size_t depth = words.size() - 1;
    size_t shared = 0;
    while (shared < std::min(open.size(), depth) && open[shared] == words[shared]) ++shared;
    for (size_t i = shared; i < depth; ++i) text += std::string(2 * i, ' ') + words[i] + ":\n";
    open.assign(words.begin(), words.end() - 1);
    text += std::string(2 * depth, ' ') + words.back() + ": " + line.value + "\n";
  }
  return text;
}

std::string print(const Recipe& recipe) { return to_yaml(settings_of(recipe)); }

}  // namespace megacpp::recipe
