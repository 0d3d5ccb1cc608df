// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/run_exports.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/path.h"

namespace megacpp::metrics {

RunExports::RunExports(const ExportChoice& choice, launch::Log log)
    : tensorboard_(choice.tensorboard), log_(std::move(log)) {
  if (!choice.metrics_port) return;
  server_ = std::make_unique<MetricsServer>(*choice.metrics_port);
  log_({.topic = "metrics", .text = server_->url()});
}

void RunExports::begin(const std::filesystem::path& run, int64_t first_step) {
  if (server_ && !metrics_) metrics_.emplace(base::canonical(run).filename().string());
  if (tensorboard_) events_.emplace(run, first_step);
}

void RunExports::add(const train::StepReport& report) {
  if (metrics_) {
    metrics_->add(report);
    const RunMetrics* only = &*metrics_;
    server_->publish(metrics_text(families_of(std::span(&only, 1))));
  }
  if (events_) add_event(report);
}

// A failure is said once: the next step is likely to meet the same full disk.
void RunExports::add_event(const train::StepReport& report) {
  const base::Decision added = events_->add(report);
  if (added || event_failed_) return;
  event_failed_ = true;
  log_({.topic = "tensorboard",
        .text = fmt::format("steps from {} on may be missing in {}: {}", report.step + 1, events_->path().string(),
                            added.reason())});
}

}  // namespace megacpp::metrics
