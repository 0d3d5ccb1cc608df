// SPDX-License-Identifier: Apache-2.0
// Metrics in the text format of Prometheus (version 0.0.4): families with their HELP and TYPE, samples with labels.
// Pure: values in, text out.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/metrics/metric.h"

namespace megacpp::metrics {

/// What HTTP calls the text.
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

struct Label {
  std::string name;
  std::string value = {};  // any text: what is no UTF-8 is escaped
};

struct Sample {
  std::vector<Label> labels = {};
  double value = 0;
};

struct MetricFamily {
  std::string name;  // in base units; of a counter, and of nothing else, with "_total" at its end
  std::string help;
  MetricKind kind = MetricKind::gauge;
  std::vector<Sample> samples = {};
};

/// Families without samples are left out.
std::string metrics_text(const std::vector<MetricFamily>& families);

}  // namespace megacpp::metrics
