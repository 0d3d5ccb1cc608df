// SPDX-License-Identifier: Apache-2.0
// Moments as text that sorts.
#pragma once

#include <string>

namespace megacpp::base {

/// Now, in UTC: "2026-11-15T17:03:21Z".
std::string utc_now();

}  // namespace megacpp::base
