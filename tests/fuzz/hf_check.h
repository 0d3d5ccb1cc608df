// SPDX-License-Identifier: Apache-2.0
// The text of a Hugging Face config.json read as checkpoint::import_hf_folder reads it.
#pragma once

#include <string_view>

namespace megacpp::fuzz {

void read_hf_config(std::string_view text);

}  // namespace megacpp::fuzz
