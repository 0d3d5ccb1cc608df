// SPDX-License-Identifier: Apache-2.0
// The runs of one folder, read only: nothing is created, locked for long or changed. Runs are named by the listing of
// the folder and looked up in it, so that no text of a request becomes a path. What a run has written is read again
// when its files change, and no run that is damaged, half-written or gone hides another. Any thread may call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/evidence/metrics/prometheus.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/serve/log_series.h"
#include "megacpp/evidence/serve/metric_logs.h"
#include "megacpp/evidence/serve/run_files.h"

namespace megacpp::serve {

/// What the list has of a run.
struct RunSummary {
  std::string name = {};     // its path below the folder: "a", "sweep-b/runs/1-2-1"
  std::string sweep = {};    // that it is a run of, by its name; empty: none
  std::string stamp = {};    // another one after each change
  bool is_read = false;      // else the rest is not known yet
  std::string problem = {};  // why it cannot be read; empty: it can
  receipt::EndingKind ending = receipt::EndingKind::running;
  std::string started_at = {};
  std::string model = {};
  std::string topology = {};
  int64_t steps = 0;
  int64_t requested_steps = 0;
  std::optional<double> loss = {};
  std::optional<double> tokens_per_second = {};
  std::string verdict = {};  // empty while it runs
};

/// Everything about one run.
struct RunDetails {
  std::string stamp = {};
  std::string problem = {};  // why there is no receipt; empty: there is
  receipt::Receipt receipt = {};
  std::vector<LogPoint> points = {};
};

/// What the list has of a sweep.
struct SweepSummary {
  std::string name = {};      // its path below the folder, "." for the folder itself
  std::string axis = {};      // "train.batch=4,8"
  std::string progress = {};  // "4 of 6 runs"
  std::string problem = {};   // why its file cannot be read; empty: it can
};

struct RunList {
  std::vector<RunSummary> runs = {};      // the one started last first, those of a sweep together
  std::vector<SweepSummary> sweeps = {};  // by name
  std::string stamp = {};                 // another one after each change of any run
  size_t unread = 0;                      // runs of which only the name is known yet
};

/// For how long a page waits for receipts that were never read, or changed.
inline constexpr std::chrono::milliseconds kReadBudget{150};

class RunIndex {
 public:
  explicit RunIndex(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }

  /// Receipts are read until the budget is spent, those of the latest runs first; the next call goes on. E1008 where
  /// the folder cannot be read; without one there are no runs.
  RunList list(std::chrono::milliseconds budget = kReadBudget);
  /// Header and ending of every run that was read: enough for ceilings.
  std::vector<receipt::Receipt> outlines() const;
  /// What the runs that logged last have logged, for Prometheus.
  std::vector<metrics::MetricFamily> metric_families();

  /// Nothing where the folder has no run of that name.
  std::optional<RunDetails> details(const std::string& name);
  /// The same as of details().
  std::optional<std::string> stamp_of(const std::string& name) const;

 private:
  /// What was read of a run.
  struct Cached {
    std::string stamp = {};
    RunSummary summary = {};
    receipt::Receipt outline = {};
    bool says_running = false;
  };

  static Cached read(const std::filesystem::path& run, const RunFiles& files);
  static RunSummary settled(const Cached& cached, const std::filesystem::path& run);
  std::string name_of(const std::filesystem::path& path) const;
  std::optional<std::filesystem::path> find(const std::string& name) const;
  std::vector<LogPoint> points_of(const std::filesystem::path& run);

  std::filesystem::path folder_;
  mutable std::mutex cache_mutex_;
  std::map<std::string, Cached> cache_;  // by name
  std::mutex logs_mutex_;
  std::map<std::string, LogSeries> logs_;  // by name
  MetricLogs metric_logs_;
};

}  // namespace megacpp::serve
