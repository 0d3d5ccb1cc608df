// SPDX-License-Identifier: Apache-2.0
// The metrics of a run's log as series for charts, read as the log grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "megacpp/evidence/serve/log_tail.h"
#include "megacpp/run/train/train.h"

namespace megacpp::serve {

struct LogPoint {
  int64_t step = 0;  // from 0
  std::optional<double> loss = {};
  std::optional<double> grad_norm = {};
  std::optional<double> tokens_per_second = {};
};

/// Points that are kept, at most: where there are more, every second of them goes.
inline constexpr size_t kMostPoints = 4096;

class LogSeries {
 public:
  /// Where there is no such file, or it is no regular one, the series is empty.
  void follow(const std::filesystem::path& file);

  const std::vector<LogPoint>& points() const { return points_; }

 private:
  void add(const train::StepReport& report);

  LogTail tail_ = {};
  std::vector<LogPoint> points_ = {};
};

/// Of a report; nothing where no time was measured.
std::optional<double> tokens_per_second(const train::StepReport& report);

}  // namespace megacpp::serve
