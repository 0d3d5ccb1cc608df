// SPDX-License-Identifier: Apache-2.0
// What a collective costs on the wire, by the count every textbook has: the bytes one chip sends when `own` bytes of
// operands meet those of `parts` chips in a ring. A receiver sends nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace megacpp::ops {

/// None for an op that moves nothing between chips.
std::optional<int64_t> sent_bytes(std::string_view op, int64_t own, int64_t parts);

}  // namespace megacpp::ops
