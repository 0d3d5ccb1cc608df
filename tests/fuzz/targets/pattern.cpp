// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/pattern.h"

#include <algorithm>

#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

void expand_pattern(Bytes input) {
  Choices choices(input);
  const int64_t depth = choices.any_of<int64_t>({1, 2, 3, 5, 7, 52, 1000, 0, -1, INT64_MIN});
  const std::string own = choices.any_of({"", "D", "DXZ"});
  const std::string pattern = choices.text(255);
  const recipe::ExpandedPattern expanded = recipe::expand(pattern, depth, own);
  require(static_cast<int64_t>(expanded.letters.size()) == depth, "a pattern has as many letters as blocks");
  require(
      std::is_sorted(expanded.cuts.begin(), expanded.cuts.end(), std::less_equal<int64_t>()) &&
          std::all_of(expanded.cuts.begin(), expanded.cuts.end(), [&](int64_t cut) { return cut > 0 && cut < depth; }),
      "cuts ascend and are inside the depth");
}

}  // namespace

Target pattern_target() {
  return {.name = "pattern", .subject = "pattern strings", .weight = 100, .run = expand_pattern};
}

}  // namespace megacpp::fuzz
