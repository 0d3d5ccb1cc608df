// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/print.h"

#include <algorithm>
#include <set>
#include <vector>

#include "megacpp/recipe/pattern.h"
#include "megacpp/recipe/schema.h"

namespace megacpp::recipe {
namespace {

/// Families whose section is printed: those in the pattern and those with a value that is not the default.
std::set<char> printed_families(const Recipe& recipe) {
  const ExpandedPattern pattern = expand(recipe.model.pattern, recipe.model.depth);
  std::set<char> families(pattern.families.begin(), pattern.families.end());
  const Recipe defaults;
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (family && value_text(member_of(key, recipe)) != value_text(member_of(key, defaults))) families.insert(*family);
  }
  return families;
}

std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    words.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

std::string print(const Recipe& recipe) {
  const std::set<char> families = printed_families(recipe);
  std::string text;
  std::vector<std::string> open;  // sections the last printed key stands in
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (family && !families.contains(*family)) continue;
    const std::vector<std::string> words = words_of(key.path);
    const size_t depth = words.size() - 1;
    size_t shared = 0;
    while (shared < std::min(open.size(), depth) && open[shared] == words[shared]) ++shared;
    for (size_t i = shared; i < depth; ++i) text += std::string(2 * i, ' ') + words[i] + ":\n";
    open.assign(words.begin(), words.end() - 1);
    text += std::string(2 * depth, ' ') + words.back() + ": " + value_text(member_of(key, recipe)) + "\n";
  }
  return text;
}

}  // namespace megacpp::recipe
