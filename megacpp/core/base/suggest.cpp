// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace megacpp::base {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  const size_t limit = std::max<size_t>(2, word.size() / 3);
  const auto by_distance = [word](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  };
  const auto best = std::min_element(known.begin(), known.end(), by_distance);
  if (best == known.end() || edit_distance(word, *best) > limit) return std::nullopt;
  return *best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view otherwise) {
  if (const auto match = nearest(word, known)) return "did you mean '" + *match + "'?";
  return std::string(otherwise);
}

}  // namespace megacpp::base
