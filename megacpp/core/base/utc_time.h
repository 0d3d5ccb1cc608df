// SPDX-License-Identifier: Apache-2.0
// Moments, for people and their tools: the clock may go backwards, so nothing is decided by them.
#pragma once

#include <string>

namespace megacpp::base {

/// Now, in UTC: "2026-11-15T17:03:21Z".
std::string utc_now();

/// Now, as seconds since 1970 in UTC, with their fraction.
double unix_seconds();

}  // namespace megacpp::base
