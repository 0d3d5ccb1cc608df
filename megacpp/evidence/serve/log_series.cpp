// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/log_series.h"

namespace megacpp::serve {

std::optional<double> tokens_per_second(const train::StepReport& report) {
  const double seconds = report.seconds - report.saving_seconds;
  return seconds > 0 && report.tokens > 0 ? std::optional(static_cast<double>(report.tokens) / seconds) : std::nullopt;
}

void LogSeries::follow(const std::filesystem::path& file) {
  tail_.follow(
      file, {.restart = [this] { points_.clear(); }, .add = [this](const train::StepReport& report) { add(report); }});
}

void LogSeries::add(const train::StepReport& report) {
  points_.push_back({.step = report.step,
                     .loss = report.loss,
                     .grad_norm = report.grad_norm,
                     .tokens_per_second = tokens_per_second(report)});
  if (points_.size() <= kMostPoints) return;
  size_t kept = 0;
  for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
}

}  // namespace megacpp::serve
