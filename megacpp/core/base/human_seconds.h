// SPDX-License-Identifier: Apache-2.0
// Seconds as people read them.
#pragma once

#include <string>

namespace megacpp::base {

/// "1.25 s", "3.10 ms", "45.0 us"; from ten hours on "24.0 h", from ten days on "11.6 days"
std::string human_seconds(double seconds);

}  // namespace megacpp::base
