// SPDX-License-Identifier: Apache-2.0
// What runs have logged, as families of Prometheus: the values of the last log, and sums over all logs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/evidence/metrics/prometheus.h"
#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

/// Experts of blocks that a run has metrics of, at most: more than any model has, so that a log which names ever new
/// ones takes no memory without end.
inline constexpr size_t kMostExperts = 1 << 16;

class RunMetrics {
 public:
  /// Every sample has `run` as its label of that name.
  explicit RunMetrics(std::string run);

  void add(const train::StepReport& report);

 private:
  friend std::vector<MetricFamily> families_of(std::span<const RunMetrics* const> runs);

  std::string run_;
  std::vector<std::optional<double>> values_;                                    // as all_metrics()
  std::vector<std::map<std::pair<std::string, size_t>, double>> expert_values_;  // as expert_metrics(): block, expert
};

/// The families of all_metrics() and of expert_metrics(), each with the samples of all runs.
std::vector<MetricFamily> families_of(std::span<const RunMetrics* const> runs);

}  // namespace megacpp::metrics
