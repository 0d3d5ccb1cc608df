// SPDX-License-Identifier: Apache-2.0
// A safetensors file read whole: every tensor handed out is inside the file and converts or is refused.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::fuzz {

void read_safetensors(std::string_view content);

/// The file of a header, of which the length is written before it, and of data.
std::string safetensors_file(const std::string& header, std::string_view data);

}  // namespace megacpp::fuzz
