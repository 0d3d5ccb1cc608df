// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace megacpp::data::bpe {

/// Valid UTF-8 in Unicode's normal form C: composed characters in place of a letter and its marks. Returns `text`
/// itself where it is in that form already by its characters alone, else `storage`.
std::string_view to_nfc(std::string_view text, std::string& storage);

}  // namespace megacpp::data::bpe
