// SPDX-License-Identifier: Apache-2.0
// The order in which to try start-up candidates: those known to run and unknown ones estimated to fit, all by the time
// of a step, measured or else predicted with the lane's correction; then what is not estimated to fit or failed before,
// which a launch should skip. Nothing is dropped: each comes with its reason.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/hardware/catalog/catalog.h"

namespace megacpp::catalog {

struct Candidate {
  Signature signature = {};
  std::vector<Part> step_seconds = {};  // predicted
  bool fits = true;                     // or may, by estimate, corrected
  std::string why_not = {};             // where it does not
};

enum class Standing { runs, unknown, too_large, failed };

struct Ranked {
  size_t candidate = 0;  // index into what was given
  Standing standing = Standing::unknown;
  std::optional<double> seconds = {};  // of a step, which it was ordered by; absent for what a launch should skip
  bool is_measured = false;            // they are; else predicted and corrected
  std::string reason = {};
};

/// Candidates are all of one build, whose measurements count before others'. What another machine measured says that
/// a candidate fits, not how fast it is. Candidates that tie keep the order in which they were given.
std::vector<Ranked> rank(const Catalog& catalog, const std::string& lane, const std::vector<Candidate>& candidates);

}  // namespace megacpp::catalog
