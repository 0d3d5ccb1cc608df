// SPDX-License-Identifier: Apache-2.0
// Names and scopes of equal blocks read alike once their numbers are gone; tables fold such lines into one.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::ir {

/// `text` with a star for the number of every block: "block07.A.wq" becomes "block*.A.wq".
std::string fold_blocks(std::string_view text);

}  // namespace megacpp::ir
