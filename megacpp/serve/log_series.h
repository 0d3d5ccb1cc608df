// SPDX-License-Identifier: Apache-2.0
// The metrics of a run's log as series for charts, read as the log grows: each call reads what was added since the one
// before. Bytes that are no sound line yet, or never, are passed over; a log that was replaced is read again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/train/train.h"

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
  void restart(uint64_t file_id);
  void add_text(const std::string& text);
  void add_line(const std::string& line);

  uint64_t file_id_ = 0;
  int64_t offset_ = 0;     // bytes that were read
  std::string part_ = {};  // of a line that has no end yet
  std::vector<LogPoint> points_ = {};
};

/// The last sound line of a log, from its end; nothing without one. Reads at most a mebibyte.
std::optional<train::StepReport> last_report(const std::filesystem::path& file);

/// Of a report; nothing where no time was measured.
std::optional<double> tokens_per_second(const train::StepReport& report);

}  // namespace megacpp::serve
