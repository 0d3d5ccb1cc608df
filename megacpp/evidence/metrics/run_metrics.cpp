// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/run_metrics.h"

namespace megacpp::metrics {
namespace {

/// What a log makes of the value before.
double next_value(MetricKind kind, double before, double logged) {
  return kind == MetricKind::counter ? before + logged : logged;
}

}  // namespace

RunMetrics::RunMetrics(std::string run)
    : run_(std::move(run)), values_(all_metrics().size()), expert_values_(expert_metrics().size()) {}

void RunMetrics::add(const train::StepReport& report) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Metric& metric = all_metrics()[i];
    const std::optional<double> logged = metric.value(report);
    if (logged)
      values_[i] = next_value(metric.kind, values_[i].value_or(0), *logged);
    else if (metric.kind == MetricKind::gauge)
      values_[i].reset();
  }
  for (size_t i = 0; i < expert_values_.size(); ++i) {
    const ExpertMetric& metric = expert_metrics()[i];
    if (metric.kind == MetricKind::gauge) expert_values_[i].clear();
    for (const train::ExpertShares& block : report.experts) {
      const std::vector<double> logged = metric.values(block);
      for (size_t expert = 0; expert < logged.size(); ++expert) {
        const std::pair<std::string, size_t> place(block.block, expert);
        if (expert_values_[i].size() >= kMostExperts && !expert_values_[i].contains(place)) continue;
        double& value = expert_values_[i][place];
        value = next_value(metric.kind, value, logged[expert]);
      }
    }
  }
}

std::vector<MetricFamily> families_of(std::span<const RunMetrics* const> runs) {
  std::vector<MetricFamily> families;
  for (size_t i = 0; i < all_metrics().size(); ++i) {
    const Metric& metric = all_metrics()[i];
    MetricFamily family{.name = metric.prometheus_name, .help = metric.help, .kind = metric.kind};
    for (const RunMetrics* run : runs)
      if (run->values_[i]) family.samples.push_back({.labels = {{"run", run->run_}}, .value = *run->values_[i]});
    families.push_back(std::move(family));
  }
  for (size_t i = 0; i < expert_metrics().size(); ++i) {
    const ExpertMetric& metric = expert_metrics()[i];
    MetricFamily family{.name = metric.prometheus_name, .help = metric.help, .kind = metric.kind};
    for (const RunMetrics* run : runs)
      for (const auto& [place, value] : run->expert_values_[i]) {
        Sample sample{.labels = {{"run", run->run_}, {"block", place.first}}, .value = value};
        if (metric.is_by_expert) sample.labels.push_back({"expert", std::to_string(place.second)});
        family.samples.push_back(std::move(sample));
      }
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace megacpp::metrics
