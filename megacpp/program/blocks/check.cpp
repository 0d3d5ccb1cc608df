// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/check.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::blocks {
namespace {

/// The divisor of `whole` nearest to `wish`, the smaller one of two.
int64_t nearest_divisor(int64_t whole, int64_t wish) {
  int64_t best = 1;
  const auto consider = [&](int64_t d) {
    const auto distance = std::pair(std::llabs(d - wish), d);
    if (distance < std::pair(std::llabs(best - wish), best)) best = d;
  };
  for (int64_t d = 1; d <= whole / d; ++d) {
    if (whole % d == 0) consider(d), consider(whole / d);
  }
  return best;
}

}  // namespace

void require_divides(const ConfigCheck& check, const Division& d) {
  MEGACPP_REQUIRE(d.whole % d.part == 0, E1005,
                  {.where = check.place(d.part_path),
                   .got = fmt::format("{} = {}, {} = {}", d.whole_path, d.whole, d.part_path, d.part),
                   .wanted = fmt::format("a divisor of {}", d.whole),
                   .next = fmt::format("set {}: {}", d.part_path, nearest_divisor(d.whole, d.part))});
}

}  // namespace megacpp::blocks
