// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/step_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/run/train/fields.h"

namespace megacpp::train {

namespace {

constexpr int64_t kMostCount = int64_t{1} << 46;
constexpr double kLeastSeconds = 1e-12, kMostSeconds = 1e12;

bool is_count(int64_t count) { return count >= 0 && count <= kMostCount; }
bool is_time(double seconds) { return seconds == 0 || (seconds >= kLeastSeconds && seconds <= kMostSeconds); }
bool is_finite(double value) { return std::isfinite(value); }

bool has_experts(const ExpertShares& block) {
  return !block.share.empty() && std::ranges::all_of(block.share, is_finite) &&
         std::ranges::all_of(block.dropped, is_finite);
}

/// Whether a run can have written it: sums over a log overflow nothing, rates are numbers, and it prints as it was
/// read.
bool is_plausible(const StepReport& report) {
  const bool has_counts = is_count(report.step) && is_count(report.steps) && is_count(report.tokens) &&
                          is_count(report.data_stalls.count) && is_count(report.programs_made) &&
                          report.host_syncs >= -kMostCount && report.host_syncs <= kMostCount;
  const bool has_times = is_time(report.seconds) && is_time(report.saving_seconds) &&
                         is_time(report.data_stalls.seconds) && is_time(report.busy_seconds.value_or(0)) &&
                         std::ranges::all_of(report.step_seconds, is_time);
  return has_counts && has_times && is_finite(report.learning_rate) && std::ranges::all_of(report.experts, has_experts);
}

}  // namespace

std::string line_of(const StepReport& report) { return base::record_text(report) + "\n"; }

std::optional<StepReport> report_of(std::string_view line) {
  bool is_sound = true;
  StepReport report{.step = -1};
  try {
    const base::Json json = base::parse_json(line, base::Code::E1008, "a line of a log");
    const auto on_mismatch = [&](const std::string&, std::string_view) { is_sound = false; };
    base::read_record(json, report, "", {.on_mismatch = on_mismatch});
  } catch (const base::Error&) {
    return std::nullopt;
  }
  return is_sound && is_plausible(report) ? std::optional(std::move(report)) : std::nullopt;
}

StepLog read_log(const std::filesystem::path& file) {
  StepLog log;
  if (!base::exists(file)) return log;
  const std::string text = base::read_file(file);
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (std::optional<StepReport> report = report_of(std::string_view(text).substr(begin, end - begin)))
      log.reports.push_back(std::move(*report));
    else
      ++log.broken_lines;
  }
  if (begin < text.size()) ++log.broken_lines;
  return log;
}

}  // namespace megacpp::train
