// SPDX-License-Identifier: Apache-2.0
// How the settings of a block fit together, each of them being in its range: what a family's check works with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "megacpp/program/blocks/config.h"

namespace megacpp::blocks {

struct ConfigCheck {
  const Config& config;
  int64_t sequence = 0;  // tokens
  /// The full path of a setting of this block: "model.attention.heads", "model.letters.G.attention.heads".
  std::function<std::string(std::string_view key)> path;
  /// Where a path was given: "nam52.yaml:12 model.attention.heads".
  std::function<std::string(const std::string& path)> place;

  std::string at(std::string_view key) const { return place(path(key)); }
};

struct Division {
  std::string whole_path;
  int64_t whole = 0;
  std::string part_path;
  int64_t part = 0;
};

/// E1005, with the nearest divisor.
void require_divides(const ConfigCheck& check, const Division& division);

}  // namespace megacpp::blocks
