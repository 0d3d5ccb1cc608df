// SPDX-License-Identifier: Apache-2.0
// The lane a launch runs on: hardware, backend, who places the collectives, and whether XLA has blocks in loops. The
// catalog corrects the predictions of one lane alike, and those of another by nothing that was measured on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "megacpp/program/recipe/modes.h"

namespace megacpp::fit {

/// Whether blocks are in loops, as it is resolved, where lanes differ by it: with XLA on GPUs, and unrolled on TPUs.
enum class LaneLoops : uint8_t { any, off, on };
/// "off", "on"; empty where lanes do not differ by it.
std::string_view loops_name(LaneLoops loops);

struct Lane {
  std::string backend;                                 // the one that runs there, which need not be the recipe's
  std::string hardware;                                // a chip's name
  std::optional<recipe::XlaPlacement> placement = {};  // none: the backend knows one way only
  LaneLoops loops = LaneLoops::any;

  /// Whether they are, where lanes differ by it.
  bool has_loops() const { return loops == LaneLoops::on; }
  bool operator==(const Lane&) const = default;
};

/// "cpu host", "xla v6e placement=megacpp", "xla h200 placement=megacpp loops=off"
std::string to_text(const Lane& lane);

}  // namespace megacpp::fit
