// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/counted.h"

namespace megacpp::base {
namespace {

bool ends_in_any(std::string_view word, std::string_view letters) {
  return !word.empty() && letters.find(word.back()) != std::string_view::npos;
}

std::string plural(std::string_view noun) {
  if (noun.ends_with('y') && !ends_in_any(noun.substr(0, noun.size() - 1), "aeiou"))
    return std::string(noun.substr(0, noun.size() - 1)) + "ies";
  const bool hisses = ends_in_any(noun, "sxz") || noun.ends_with("ch") || noun.ends_with("sh");
  return std::string(noun) + (hisses ? "es" : "s");
}

}  // namespace

std::string counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + (count == 1 ? std::string(noun) : plural(noun));
}

}  // namespace megacpp::base
