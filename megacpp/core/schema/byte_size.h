// SPDX-License-Identifier: Apache-2.0
// Numbers of bytes as people write them: "512MiB", "1.5GiB", "2GB", "4096". KiB to TiB are powers of 1024, kB to TB of
// 1000; a text that is neither is refused, since a bare "512M" means one thing to some and another to others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megacpp::schema {

struct ByteSize {
  int64_t bytes = 0;

  bool operator==(const ByteSize&) const = default;
};

/// Nothing for other texts and for what 63 bits do not hold. Parts of a byte are dropped.
std::optional<ByteSize> parse_byte_size(std::string_view text);

/// In the largest binary unit that says it exactly: "512MiB", "1536MiB", "1000".
std::string to_string(ByteSize size);

/// What a text that is no size was probably meant to be: "512M", "512 mb" -> "512MiB"; nothing when there is no number.
std::optional<std::string> nearest_byte_size(std::string_view text);

}  // namespace megacpp::schema
