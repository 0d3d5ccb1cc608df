// SPDX-License-Identifier: Apache-2.0
// The hash of what this program writes down: XXH64 without a seed, the same on every machine and in every version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace megacpp::base {

uint64_t hash_of(std::span<const std::byte> bytes);
uint64_t hash_of(std::string_view text);

/// As 16 hex digits.
std::string hash_text(uint64_t hash);
std::string hash_text(std::string_view text);

}  // namespace megacpp::base
