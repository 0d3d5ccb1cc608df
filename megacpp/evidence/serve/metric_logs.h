// SPDX-License-Identifier: Apache-2.0
// What runs have logged, for Prometheus. Logs are read as they grow; how many runs one answer has and how many bytes it
// reads are bounded, and what is left out is counted in the answer. Any thread may call.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "megacpp/evidence/metrics/prometheus.h"
#include "megacpp/evidence/metrics/run_metrics.h"
#include "megacpp/evidence/serve/log_tail.h"

namespace megacpp::serve {

/// Runs with metrics in one answer: those that logged last.
inline constexpr size_t kMostMetricRuns = 64;
/// Of logs, that one answer reads; the next one goes on.
inline constexpr size_t kMostMetricBytes = size_t{64} << 20;

struct NamedRun {
  std::string name;  // as its samples have it
  std::filesystem::path path;
};

class MetricLogs {
 public:
  /// `runs`: the one that logged last first. A run whose log is not read to its end yet has no samples:
  /// its sums would be too small.
  std::vector<metrics::MetricFamily> families(const std::vector<NamedRun>& runs);

 private:
  struct Followed {
    explicit Followed(const std::string& run) : metrics(run) {}

    LogTail tail = {};
    metrics::RunMetrics metrics;
  };
  /// Whether it is read to its end.
  static bool follow(Followed& run, const NamedRun& from);

  std::mutex mutex_;
  std::map<std::string, Followed> runs_;  // by name
};

}  // namespace megacpp::serve
