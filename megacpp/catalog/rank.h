// SPDX-License-Identifier: Apache-2.0
// The order in which to try start-up candidates: those known to run, by their measured time; unknown ones that fit on
// paper, by predicted time with the lane's correction; then what does not fit on paper or failed before, which a
// launch should skip. Nothing is dropped: each comes with its reason.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/catalog/catalog.h"

namespace megacpp::catalog {

struct Candidate {
  Signature signature = {};
  std::vector<Part> step_seconds = {};  // predicted
  bool fits = true;                     // on paper, corrected
  std::string why_not = {};             // where it does not
};

enum class Standing { runs, unknown, too_large, failed };  // in the order of ranks

struct Ranked {
  size_t candidate = 0;  // index into what was given
  Standing standing = Standing::unknown;
  std::optional<double> seconds = {};  // of a step: measured where it ran, else predicted and corrected
  std::string reason = {};
};

/// Candidates that tie keep the order in which they were given.
std::vector<Ranked> rank(const Catalog& catalog, const std::string& lane, const std::vector<Candidate>& candidates);

}  // namespace megacpp::catalog
