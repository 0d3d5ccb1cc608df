// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/word_list.h"

namespace megacpp::base {

std::string any_of_words(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace megacpp::base
