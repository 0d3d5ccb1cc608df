// SPDX-License-Identifier: Apache-2.0
// Requests as they come over the wire, and their targets taken apart. A target is decoded once and strictly: what is
// not well formed, no UTF-8 or has control characters is refused and never repaired.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megacpp::http {

struct Request {
  std::string method;
  std::string target;                     // as sent: "/runs/a%20b?stamp=1"
  std::vector<std::string> hosts = {};    // every Host header
  std::string authorization = {};         // the header, or empty
  std::vector<std::string> cookies = {};  // every Cookie header
};

/// Of a head: a line with method, target and HTTP/1.0 or HTTP/1.1, then lines of headers, then an empty one. Nothing
/// where it is not whole or not well formed.
std::optional<Request> parse_head(std::string_view head);

struct Target {
  /// Of the path, each decoded by itself: a name with "%2f" in it is one segment. None for "/".
  std::vector<std::string> segments = {};
  std::vector<std::pair<std::string, std::string>> query = {};

  /// The first value of that name; empty where there is none.
  std::string value(std::string_view name) const;
  std::vector<std::string> values(std::string_view name) const;
};

inline constexpr size_t kMostTargetBytes = 4096;

/// Nothing where the target is longer, does not begin with '/', has an empty segment or is not well formed.
std::optional<Target> parse_target(std::string_view target);

/// `text` as it may stand in a segment or a value of a target.
std::string url_encoded(std::string_view text);

/// With the letters of ASCII in lower case.
std::string lower_case(std::string_view text);

/// Back to text, with '/' in front.
std::string to_text(const Target& target);

}  // namespace megacpp::http
