// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace megacpp::testing_support {

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// How often `part` stands in `text`.
inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace megacpp::testing_support
