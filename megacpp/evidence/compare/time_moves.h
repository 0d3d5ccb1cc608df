// SPDX-License-Identifier: Apache-2.0
// Where time moved between two runs: the parts of a step, what is known of why each part moved, and what no part
// explains. Both sides in seconds for as many tokens as a step of the baseline has.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

struct PartMove {
  std::string part;  // "arithmetic", "memory", "links", "bubble"
  double baseline = 0;
  double other = 0;
  std::vector<std::string> notes = {};  // "all_gather over data: 12 MiB -> 80 MiB a step"

  double change() const { return other - baseline; }
};

struct TimeMoves {
  double baseline = 0;  // mean of the steady windows
  double other = 0;
  std::vector<PartMove> parts = {};  // the largest move first; empty where a run did not measure them
  /// Of the change, beside the parts: the host, waiting, and what was not measured.
  double unexplained = 0;
  std::vector<std::string> unexplained_notes = {};
  /// The part that has at least half of the change; none: the cause is not found.
  std::optional<std::string> cause = {};

  double change() const { return other - baseline; }
};

using Receipts = std::span<const receipt::Receipt>;

/// Every receipt has a steady window.
TimeMoves time_moves(Receipts baseline, Receipts other);

/// What a recipe key decides in a step: "weights kept or gathered", "sequence split", "compile shape", "topology",
/// "overlap"; empty for others.
std::string aspect_of(const std::string& key);

}  // namespace megacpp::compare
