// SPDX-License-Identifier: Apache-2.0
// What a run gives to others' tools while it trains: TensorBoard's event files in its directory, and an endpoint for
// Prometheus. Both get a copy of the metrics where a step is logged; no step waits for either, and neither ends a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "megacpp/evidence/metrics/event_file.h"
#include "megacpp/evidence/metrics/metrics_server.h"
#include "megacpp/evidence/metrics/run_metrics.h"
#include "megacpp/run/launch/log.h"
#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

struct ExportChoice {
  bool tensorboard = false;
  std::optional<int> metrics_port = {};  // 0: any that is free
};

class RunExports {
 public:
  /// Opens the port, and says where it is. E3004 as MetricsServer.
  RunExports(const ExportChoice& choice, launch::Log log);

  /// When a rung is loaded and its first step follows. E3001 where an event file cannot be made.
  void begin(const std::filesystem::path& run, int64_t first_step);
  void add(const train::StepReport& report);

 private:
  void add_event(const train::StepReport& report);

  bool tensorboard_;
  launch::Log log_;
  std::unique_ptr<MetricsServer> server_;  // none: not requested
  std::optional<RunMetrics> metrics_;      // of the server, from begin() on; its counters are those of this process
  std::optional<EventFile> events_;
  bool event_failed_ = false;
};

}  // namespace megacpp::metrics
