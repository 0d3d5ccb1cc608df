// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/block.h"

namespace megacpp::recipe {
namespace {

constexpr char kCut = '|';

/// Letters that a pattern may have.
struct Known {
  std::string letters;
  std::string titles;  // "A attention, M Mamba-2"
};

Known known_letters(std::string_view own) {
  Known known;
  for (const blocks::BlockDef& def : blocks::all_blocks()) {
    known.letters += def.letter;
    known.titles += fmt::format("{}{} {}", known.titles.empty() ? "" : ", ", def.letter, def.title);
  }
  known.letters += own;
  return known;
}

[[noreturn]] void refuse(std::string_view pattern, const Known& known, std::string got, std::string next) {
  base::raise(base::Code::E1006, {.where = fmt::format("model.pattern \"{}\"", pattern),
                                  .got = std::move(got),
                                  .wanted = fmt::format("letters {}, with '|' between blocks to cut stages",
                                                        fmt::join(known.letters, ", ")),
                                  .next = std::move(next)});
}

std::string instead_of(char letter, const Known& known) {
  const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (known.letters.find(upper) != std::string::npos) return fmt::format("write '{}'", upper);
  if (letter < 'A' || letter > 'Z') return known.titles + ": use one of these";
  return fmt::format("{}: use one of these, or define model.letters.{}", known.titles, letter);
}

void check(std::string_view pattern, const Known& known) {
  for (size_t i = 0; i < pattern.size(); ++i)
    if (pattern[i] != kCut && known.letters.find(pattern[i]) == std::string::npos)
      refuse(pattern, known, fmt::format("'{}' at place {}", pattern[i], i + 1), instead_of(pattern[i], known));
  if (std::all_of(pattern.begin(), pattern.end(), [](char c) { return c == kCut; })) {
    refuse(pattern, known, "no block", "give at least one letter, e.g. AE");
  }
  if (pattern.front() == kCut) refuse(pattern, known, "a cut before the first block", "move the first '|' to the end");
  if (const size_t at = pattern.find("||"); at != std::string_view::npos) {
    refuse(pattern, known, fmt::format("a stage without blocks at place {}", at + 2), "write one '|'");
  }
}

}  // namespace

ExpandedPattern expand(std::string_view pattern, int64_t depth, std::string_view own) {
  check(pattern, known_letters(own));
  const auto tile = std::count_if(pattern.begin(), pattern.end(), [](char c) { return c != kCut; });
  MEGACPP_REQUIRE(depth >= 1, E1003,
                  {.where = "model.depth",
                   .got = std::to_string(depth),
                   .wanted = "at least 1",
                   .next = fmt::format("give the number of blocks, e.g. {} for one tile", tile)});
  ExpandedPattern expanded;
  for (size_t i = 0;; i = (i + 1) % pattern.size()) {
    const int64_t blocks = static_cast<int64_t>(expanded.letters.size());
    if (blocks == depth) return expanded;
    if (pattern[i] == kCut) {
      expanded.cuts.push_back(blocks);
    } else {
      expanded.letters.push_back(pattern[i]);
    }
  }
}

ExpandedPattern expand(const Model& model) {
  std::string own;
  for (const auto& [letter, definition] : model.letters) own += letter;
  return expand(model.pattern, model.depth, own);
}

}  // namespace megacpp::recipe
