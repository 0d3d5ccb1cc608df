// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/http/request.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/utf8.h"

namespace megacpp::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// `plus`: what '+' stands for.
std::optional<std::string> url_decoded(std::string_view text, char plus) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? plus : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(16 * high + low);
    i += 2;
  }
  if (std::ranges::any_of(decoded, is_control) || !base::is_utf8(decoded)) return std::nullopt;
  return decoded;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool parse_segments(std::string_view path, Target& target) {
  if (path == "/") return true;
  for (const std::string_view part : split_at(path.substr(1), '/')) {
    std::optional<std::string> segment = url_decoded(part, '+');
    if (!segment || segment->empty()) return false;
    target.segments.push_back(std::move(*segment));
  }
  return true;
}

bool parse_query(std::string_view query, Target& target) {
  for (const std::string_view part : split_at(query, '&')) {
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    std::optional<std::string> name = url_decoded(part.substr(0, equals), ' ');
    std::optional<std::string> value =
        url_decoded(equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1), ' ');
    if (!name || !value) return false;
    target.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

/// "GET /runs/a HTTP/1.1"
bool parse_request_line(std::string_view line, Request& request) {
  const std::vector<std::string_view> parts = split_at(line, ' ');
  if (parts.size() != 3 || parts[0].empty() || parts[1].empty()) return false;
  if (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") return false;
  request.method = parts[0];
  request.target = parts[1];
  return true;
}

/// "Host: 127.0.0.1:8077"; what nobody asks for is left out.
bool parse_header(std::string_view line, Request& request, std::vector<std::string>& authorizations) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line[colon - 1] == ' ') return false;
  const std::string name = lower_case(line.substr(0, colon));
  line.remove_prefix(colon + 1);
  while (line.starts_with(' ')) line.remove_prefix(1);
  while (line.ends_with(' ')) line.remove_suffix(1);
  if (name == "host") request.hosts.emplace_back(line);
  if (name == "cookie") request.cookies.emplace_back(line);
  if (name == "authorization") authorizations.emplace_back(line);
  return true;
}

}  // namespace

std::optional<Request> parse_head(std::string_view head) {
  constexpr std::string_view kEnd = "\r\n";
  Request request;
  std::vector<std::string> authorizations;
  for (bool is_first = true;; is_first = false) {
    const size_t end = head.find(kEnd);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kEnd.size());
    if (line.empty() && !is_first) break;
    const bool is_sound = std::ranges::none_of(line, is_control) &&
                          (is_first ? parse_request_line(line, request) : parse_header(line, request, authorizations));
    if (!is_sound) return std::nullopt;
  }
  if (authorizations.size() == 1) request.authorization = authorizations.front();
  return request;
}

std::string Target::value(std::string_view name) const {
  const std::vector<std::string> all = values(name);
  return all.empty() ? "" : all.front();
}

std::vector<std::string> Target::values(std::string_view name) const {
  std::vector<std::string> found;
  for (const auto& [key, value] : query)
    if (key == name) found.push_back(value);
  return found;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.size() > kMostTargetBytes || !target.starts_with('/')) return std::nullopt;
  const size_t mark = target.find('?');
  Target parsed;
  if (!parse_segments(target.substr(0, mark), parsed)) return std::nullopt;
  if (mark != std::string_view::npos && !parse_query(target.substr(mark + 1), parsed)) return std::nullopt;
  return parsed;
}

std::string url_encoded(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return encoded;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string to_text(const Target& target) {
  std::string text;
  for (const std::string& segment : target.segments) text += "/" + url_encoded(segment);
  if (text.empty()) text = "/";
  char separator = '?';
  for (const auto& [name, value] : target.query) {
    text += separator + url_encoded(name) + "=" + url_encoded(value);
    separator = '&';
  }
  return text;
}

}  // namespace megacpp::http
