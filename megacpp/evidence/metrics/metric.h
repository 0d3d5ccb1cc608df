// SPDX-License-Identifier: Apache-2.0
// The metrics of a logged step as single numbers, each with the names that others' tools have for it: one table that
// CSV files, TensorBoard's event files and Prometheus are written from. To add one: a line in metric.cpp, behind a
// member of train::StepReport.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

/// What Prometheus makes of a metric.
enum class MetricKind : uint8_t {
  gauge,    // the value of the last log
  counter,  // what a log says of the steps since the log before it, summed over logs
};

struct Metric {
  const char* name;  // in log.jsonl, and of its CSV column: "grad_norm"
  const char* tag;   // of TensorBoard: "train/grad_norm"; empty: events have it as their step or their wall time
  const char* prometheus_name;  // with its unit: "megacpp_train_gradient_norm"
  MetricKind kind;
  const char* help;
  std::optional<double> (*value)(const train::StepReport& report);  // nothing: not measured
};
std::span<const Metric> all_metrics();

/// Of a block with experts.
struct ExpertMetric {
  const char* name;  // in log.jsonl: "share"
  const char* prometheus_name;
  MetricKind kind;
  const char* help;
  bool is_by_expert;  // a value for each expert, or one for the block
  std::vector<double> (*values)(const train::ExpertShares& block);
};
std::span<const ExpertMetric> expert_metrics();

struct MetricValue {
  std::string name;  // "loss", "experts.block03.share.0"
  std::string tag;   // "train/loss", "experts/block03/share/0"
  double value = 0;
};
/// All that was measured, in the order of the tables.
std::vector<MetricValue> values_of(const train::StepReport& report);

/// The seconds of single steps, the one list of a log line that is no expert's.
inline constexpr const char* kStepSeconds = "step_seconds";
inline constexpr const char* kStepSecondsTag = "speed/step_seconds";

}  // namespace megacpp::metrics
