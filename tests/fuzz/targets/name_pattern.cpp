// SPDX-License-Identifier: Apache-2.0
// Patterns of parameter names (lora.targets, optimizer.no_decay) against a matcher that is slow and obvious.
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/blocks/parameter.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

/// Whether the pattern is the whole name: a table of all beginnings of the one against all beginnings of the other.
bool matches_by_table(std::string_view pattern, std::string_view name) {
  std::vector<std::vector<bool>> table(pattern.size() + 1, std::vector<bool>(name.size() + 1, false));
  table[0][0] = true;
  for (size_t p = 1; p <= pattern.size(); ++p)
    for (size_t n = 0; n <= name.size(); ++n) {
      const bool is_star = pattern[p - 1] == '*';
      const bool takes_nothing = is_star && table[p - 1][n];
      const bool takes_one =
          n > 0 && (is_star ? table[p][n - 1] : pattern[p - 1] == name[n - 1] && table[p - 1][n - 1]);
      table[p][n] = takes_nothing || takes_one;
    }
  return table[pattern.size()][name.size()];
}

/// Of few letters, so that much of one is found in the other; a byte is a run of a letter.
std::string any_text(Choices& choices, std::string_view letters) {
  std::string text;
  for (size_t runs = choices.below(24); runs > 0; --runs) {
    const char letter = letters[choices.below(letters.size())];
    text.append(1 + choices.below(4), letter);
  }
  return text;
}

void match_names(Bytes input) {
  Choices choices(input);
  const std::string pattern = any_text(choices, "*a.*b"), name = any_text(choices, "a.b");
  require(blocks::name_matches(pattern, name) == matches_by_table(pattern, name),
          "a pattern matches what its table says: '" + pattern + "' and '" + name + "'");
  require(blocks::name_matches(name, name), "a name is its own pattern: " + name);
}

}  // namespace

Target name_pattern_target() {
  return {.name = "name_pattern",
          .subject = "patterns of parameter names",
          .weight = 100,
          .run = match_names,
          .limit = std::chrono::seconds(2)};
}

}  // namespace megacpp::fuzz
