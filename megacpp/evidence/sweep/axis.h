// SPDX-License-Identifier: Apache-2.0
// The one recipe key that a sweep varies, and the order in which its values are tried.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::sweep {

struct Axis {
  std::string key;                  // "layout.tensor_parallel"
  std::vector<std::string> values;  // as --set takes them; the first is what the others are compared with

  bool operator==(const Axis&) const = default;
};

/// "layout.tensor_parallel=1,2,4,8"; commas inside brackets belong to a value. E1007 where it has no key, no values or
/// one of them twice, E1001 where there is no such key.
Axis parse_axis(std::string_view text);
std::string to_text(const Axis& axis);

/// One run of a sweep.
struct Trial {
  size_t value = 0;   // of the axis, from 0
  size_t repeat = 0;  // from 0

  bool operator==(const Trial&) const = default;
};

/// Every value once before any is repeated, each time from another one on: what changes slowly on the machine meets all
/// values alike.
std::vector<Trial> interleaved(size_t values, size_t repeats);

}  // namespace megacpp::sweep
