// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/fold_blocks.h"

namespace megacpp::ir {
namespace {

constexpr std::string_view kBlock = "block";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string fold_blocks(std::string_view text) {
  std::string folded;
  while (!text.empty()) {
    size_t taken = 1;
    if (text.substr(0, kBlock.size()) == kBlock) {
      taken = kBlock.size();
      while (taken < text.size() && is_digit(text[taken])) ++taken;
    }
    if (taken > kBlock.size()) {
      folded.append(kBlock).append("*");
    } else {
      folded.append(text.substr(0, taken));
    }
    text.remove_prefix(taken);
  }
  return folded;
}

}  // namespace megacpp::ir
