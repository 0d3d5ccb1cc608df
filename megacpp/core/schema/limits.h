// SPDX-License-Identifier: Apache-2.0
// Upper bounds of settings: far above any model that is trained, and low enough that products of a few sizes stay
// inside 64 bits.
#pragma once

namespace megacpp::schema {

inline constexpr double kMaxDepth = 100'000;
inline constexpr double kMaxWidth = 1 << 20;
inline constexpr double kMaxTokens = 1 << 24;
inline constexpr double kMaxParts = 1 << 16;
inline constexpr double kMaxSteps = 1e9;
inline constexpr double kMaxThreads = 1024;
inline constexpr double kMaxSeconds = 1e6;

}  // namespace megacpp::schema
