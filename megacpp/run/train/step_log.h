// SPDX-License-Identifier: Apache-2.0
// The log of a run as text: one line of JSON for each step that was logged, with every metric of its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/run/train/train.h"

namespace megacpp::train {

/// With its end of line. What was not measured is null.
std::string line_of(const StepReport& report);

/// Nothing for a line that is none of a log: a full disk or a killed process leaves a part of one, and no run takes
/// less than no time.
std::optional<StepReport> report_of(std::string_view line);

struct StepLog {
  std::vector<StepReport> reports = {};  // of the sound lines, in order
  int64_t broken_lines = 0;              // all others, and a last one that has no end
};

/// Nothing where there is no such file. E1008.
StepLog read_log(const std::filesystem::path& file);

}  // namespace megacpp::train
