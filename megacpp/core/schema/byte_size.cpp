// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>

namespace megacpp::schema {
namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", int64_t{1} << 10},
                                          {"MiB", int64_t{1} << 20},
                                          {"GiB", int64_t{1} << 30},
                                          {"TiB", int64_t{1} << 40},
                                          {"kB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000}}};

struct Parts {
  std::string_view number;
  std::string_view unit;  // behind one space at most
};

Parts parts_of(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.')) ++end;
  const size_t unit = end < text.size() && text[end] == ' ' ? end + 1 : end;
  return {text.substr(0, end), text.substr(unit)};
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<ByteSize> parse_byte_size(std::string_view text) {
  const Parts parts = parts_of(text);
  for (const Unit& unit : kUnits) {
    if (unit.name != parts.unit) continue;
    // Whole numbers are exact; a fraction may be off where a double is.
    if (const auto whole = number_of<int64_t>(parts.number)) {
      if (*whole > INT64_MAX / unit.bytes) return std::nullopt;
      return ByteSize{*whole * unit.bytes};
    }
    const auto fraction = number_of<double>(parts.number);
    if (!fraction || unit.bytes == 1) return std::nullopt;
    const double bytes = *fraction * static_cast<double>(unit.bytes);
    const bool is_less_than_one = bytes < 1 && *fraction > 0;  // 0 has a meaning of its own: no limit
    if (!(bytes < 0x1p63) || is_less_than_one) return std::nullopt;
    return ByteSize{static_cast<int64_t>(bytes)};
  }
  return std::nullopt;
}

std::string to_string(ByteSize size) {
  for (const std::string_view name : {"TiB", "GiB", "MiB", "KiB"})
    for (const Unit& unit : kUnits)
      if (unit.name == name && size.bytes > 0 && size.bytes % unit.bytes == 0)
        return std::to_string(size.bytes / unit.bytes) + std::string(name);
  return std::to_string(size.bytes);
}

std::optional<std::string> nearest_byte_size(std::string_view text) {
  const Parts parts = parts_of(text);
  if (!number_of<double>(parts.number) || parts.unit.empty()) return std::nullopt;
  const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(parts.unit[0])));
  for (const Unit& unit : kUnits)
    if (unit.name.size() == 3 && unit.name[0] == letter) {
      const std::string nearest = std::string(parts.number) + std::string(unit.name);
      return parse_byte_size(nearest) ? std::optional(nearest) : std::nullopt;
    }
  return std::nullopt;
}

}  // namespace megacpp::schema
