// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "megacpp/base/error.h"

namespace megacpp::recipe {
namespace {

constexpr std::string_view kFamilies = "AMER";
constexpr char kCut = '|';

[[noreturn]] void refuse(std::string_view pattern, std::string got, std::string next) {
  base::raise(base::Code::E1006, {.where = fmt::format("model.pattern \"{}\"", pattern),
                                  .got = std::move(got),
                                  .wanted = "letters A, M, E, R, with '|' between blocks to cut stages",
                                  .next = std::move(next)});
}

void check_letter(std::string_view pattern, char letter, size_t place) {
  if (letter == kCut || kFamilies.find(letter) != std::string_view::npos) return;
  const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  const bool lower_case = kFamilies.find(upper) != std::string_view::npos;
  refuse(pattern, fmt::format("'{}' at place {}", letter, place + 1),
         lower_case ? fmt::format("write '{}'", upper)
                    : "A attention, M Mamba-2, E feed-forward, R recurrent: use one of these");
}

void check(std::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) check_letter(pattern, pattern[i], i);
  if (std::all_of(pattern.begin(), pattern.end(), [](char c) { return c == kCut; })) {
    refuse(pattern, "no block", "give at least one letter, e.g. AE");
  }
  if (pattern.front() == kCut) refuse(pattern, "a cut before the first block", "move the first '|' to the end");
  if (const size_t at = pattern.find("||"); at != std::string_view::npos) {
    refuse(pattern, fmt::format("a stage without blocks at place {}", at + 2), "write one '|'");
  }
}

}  // namespace

ExpandedPattern expand(std::string_view pattern, int64_t depth) {
  check(pattern);
  const auto tile = std::count_if(pattern.begin(), pattern.end(), [](char c) { return c != kCut; });
  MEGACPP_REQUIRE(depth >= 1, E1003,
                  {.where = "model.depth",
                   .got = std::to_string(depth),
                   .wanted = "at least 1",
                   .next = fmt::format("give the number of blocks, e.g. {} for one tile", tile)});
  ExpandedPattern expanded;
  for (size_t i = 0;; i = (i + 1) % pattern.size()) {
    const int64_t blocks = static_cast<int64_t>(expanded.families.size());
    if (blocks == depth) return expanded;
    if (pattern[i] == kCut) {
      expanded.cuts.push_back(blocks);
    } else {
      expanded.families.push_back(pattern[i]);
    }
  }
}

bool has_family(const ExpandedPattern& pattern, char family) {
  return std::find(pattern.families.begin(), pattern.families.end(), family) != pattern.families.end();
}

}  // namespace megacpp::recipe
