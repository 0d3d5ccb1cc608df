// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace megacpp::base {

uint64_t hash_of(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

uint64_t hash_of(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string hash_text(std::string_view text) { return hash_text(hash_of(text)); }

}  // namespace megacpp::base
