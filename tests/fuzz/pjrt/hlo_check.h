// SPDX-License-Identifier: Apache-2.0
// A compiled program as a plugin hands it out, read and analysed as megacpp does.
#pragma once

#include <string>

namespace megacpp::fuzz {

void read_hlo(const std::string& code, const std::string& format);

}  // namespace megacpp::fuzz
