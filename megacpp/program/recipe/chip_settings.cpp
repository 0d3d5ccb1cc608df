// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/chip_settings.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::recipe {
namespace {

std::optional<int64_t> count_of(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || count < 0) return std::nullopt;
  return count;
}

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace

std::optional<ChipLimit> parse_chip_limit(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto chip = count_of(text.substr(0, equals));
  const auto size = schema::parse_byte_size(text.substr(equals + 1));
  if (!chip || !size || size->bytes == 0) return std::nullopt;
  return ChipLimit{*chip, size->bytes};
}

std::optional<FailAllocation> parse_fail_allocation(std::string_view text) {
  const std::vector<std::string_view> words = words_in(text);
  if (words.size() != 4 || words[0] != "chip" || words[2] != "step") return std::nullopt;
  const auto chip = count_of(words[1]);
  if (!chip) return std::nullopt;
  if (words[3] == "compile") return FailAllocation{*chip, FailAllocation::At::compile, -1};
  if (words[3] == "load") return FailAllocation{*chip, FailAllocation::At::load, -1};
  const auto step = count_of(words[3]);
  if (!step) return std::nullopt;
  return FailAllocation{*chip, FailAllocation::At::step, *step};
}

std::vector<FailAllocation> fail_allocations(const Hardware& hardware) {
  std::vector<FailAllocation> faults;
  for (const std::string& text : hardware.fail_allocation) {
    const auto fault = parse_fail_allocation(text);
    MEGACPP_CHECK(fault.has_value()) << "hardware.fail_allocation was not validated: " << text;
    faults.push_back(*fault);
  }
  return faults;
}

std::vector<int64_t> chip_limits(const Hardware& hardware, int64_t chips) {
  if (hardware.limit.bytes == 0 && hardware.limits.empty()) return {};
  std::vector<int64_t> limits(static_cast<size_t>(chips), hardware.limit.bytes);
  for (const std::string& text : hardware.limits) {
    const auto limit = parse_chip_limit(text);
    MEGACPP_CHECK(limit.has_value()) << "hardware.limits was not validated: " << text;
    MEGACPP_REQUIRE(limit->chip < chips, E1003,
                    {.where = "hardware.limits",
                     .got = "'" + text + "'",
                     .wanted = fmt::format("a chip from 0 to {}: there are {}", chips - 1, chips),
                     .next = fmt::format("name chip {} at most, or take more chips", chips - 1)});
    limits[static_cast<size_t>(limit->chip)] = limit->bytes;
  }
  return limits;
}

int64_t chips_of(const Layout& layout) {
  int64_t chips = 1;
  for (const int64_t degree : {layout.data_parallel, layout.expert_parallel, layout.context_parallel,
                               layout.tensor_parallel, layout.pipeline_parallel}) {
    if (chips > INT64_MAX / degree) return INT64_MAX;
    chips *= degree;
  }
  return chips;
}

}  // namespace megacpp::recipe
