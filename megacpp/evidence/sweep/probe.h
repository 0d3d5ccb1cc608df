// SPDX-License-Identifier: Apache-2.0
// Finds the largest shape that trains: the recipe's batch or sequence length times two, four, ... until it does not
// fit, then between the last two; the largest is run again until it has run often enough to count as validated. Each
// trial makes a few steps in a process of its own. One that fails for another reason than its memory says nothing of
// its shape and ends the search.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/evidence/sweep/trial_runner.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::sweep {

inline constexpr int64_t kProbeSteps = 3;

struct ProbeRequest {
  recipe::Recipe recipe;
  std::string key;          // "train.batch" or "train.sequence"; values are multiples of the recipe's
  size_t times = 3;         // that the largest has to run
  int64_t most_times = 64;  // the recipe's value, at most
  std::filesystem::path folder;
};

struct ProbedValue {
  int64_t value = 0;
  int status = 0;
  std::string error = {};
};

struct Probe {
  int64_t validated = 0;                 // 0: not even the recipe's own, or the search did not end
  bool reached_most = false;             // it fits even at most_times
  std::vector<ProbedValue> trials = {};  // in order
  bool was_stopped = false;              // on request
  bool failed = false;                   // the last trial ended by something else than its memory
};

using OnProbe = std::function<void(int64_t value)>;

Probe run_probe(const ProbeRequest& request, const TrialRunner& runner, const OnProbe& on_probe);

}  // namespace megacpp::sweep
