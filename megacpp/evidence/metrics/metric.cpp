// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/metric.h"

#include <array>

namespace megacpp::metrics {
namespace {

using train::ExpertShares;
using train::StepReport;
using Value = std::optional<double>;

Value number(std::optional<int64_t> count) { return count ? Value(static_cast<double>(*count)) : std::nullopt; }

constexpr std::array kMetrics = {
    Metric{"step", "", "megacpp_train_step", MetricKind::gauge, "The last logged step, from 0.",
           [](const StepReport& report) { return number(report.step); }},
    Metric{"logged_at", "", "megacpp_train_logged_timestamp_seconds", MetricKind::gauge,
           "When the last step was logged, since 1970.", [](const StepReport& report) { return report.logged_at; }},
    Metric{"loss", "train/loss", "megacpp_train_loss", MetricKind::gauge, "Loss of the last logged step.",
           [](const StepReport& report) { return report.loss; }},
    Metric{"cross_entropy", "train/cross_entropy", "megacpp_train_cross_entropy", MetricKind::gauge,
           "Cross-entropy of the last logged step, in nats per token.",
           [](const StepReport& report) { return report.cross_entropy; }},
    Metric{"grad_norm", "train/grad_norm", "megacpp_train_gradient_norm", MetricKind::gauge,
           "Norm of all gradients before clipping.", [](const StepReport& report) { return report.grad_norm; }},
    Metric{"learning_rate", "train/learning_rate", "megacpp_train_learning_rate", MetricKind::gauge,
           "Learning rate of the last logged step.",
           [](const StepReport& report) { return Value(report.learning_rate); }},
    Metric{"balance", "train/balance", "megacpp_train_balance_loss", MetricKind::gauge,
           "Balance loss of the experts, before its coefficient.",
           [](const StepReport& report) { return report.balance; }},
    Metric{"dropped", "experts/dropped", "megacpp_train_dropped_requests_total", MetricKind::counter,
           "Requests for experts beyond their capacity, in logged steps.",
           [](const StepReport& report) { return report.dropped; }},
    Metric{"steps", "speed/steps", "megacpp_train_steps_total", MetricKind::counter, "Steps.",
           [](const StepReport& report) { return number(report.steps); }},
    Metric{"tokens", "speed/tokens", "megacpp_train_tokens_total", MetricKind::counter, "Tokens trained on.",
           [](const StepReport& report) { return number(report.tokens); }},
    Metric{"seconds", "speed/seconds", "megacpp_train_seconds_total", MetricKind::counter, "Time of all steps.",
           [](const StepReport& report) { return Value(report.seconds); }},
    Metric{"tokens_per_second", "speed/tokens_per_second", "megacpp_train_tokens_per_second", MetricKind::gauge,
           "Rate of the steps since the log before.",
           [](const StepReport& report) {
             return report.seconds > 0 ? Value(static_cast<double>(report.tokens) / report.seconds) : std::nullopt;
           }},
    Metric{"saving_seconds", "speed/saving_seconds", "megacpp_train_saving_seconds_total", MetricKind::counter,
           "Time that steps waited for checkpoints.",
           [](const StepReport& report) { return Value(report.saving_seconds); }},
    Metric{"data_stalls", "host/data_stalls", "megacpp_train_data_stalls_total", MetricKind::counter,
           "Waits for data that was not read in time.",
           [](const StepReport& report) { return number(report.data_stalls.count); }},
    Metric{"data_stall_seconds", "host/data_stall_seconds", "megacpp_train_data_stall_seconds_total",
           MetricKind::counter, "Time of these waits.",
           [](const StepReport& report) { return Value(report.data_stalls.seconds); }},
    Metric{"host_syncs", "host/host_syncs", "megacpp_train_host_syncs_total", MetricKind::counter,
           "Waits of the host for devices, beside those that fetch metrics, save, or are the path's own.",
           [](const StepReport& report) { return number(report.host_syncs); }},
    Metric{"programs_made", "host/programs_made", "megacpp_train_programs_made_total", MetricKind::counter,
           "Programs compiled, or taken from a cache.",
           [](const StepReport& report) { return number(report.programs_made); }},
    Metric{"peak_bytes", "memory/peak_bytes", "megacpp_train_peak_memory_bytes", MetricKind::gauge,
           "The most that a chip of this process has used at once.",
           [](const StepReport& report) { return number(report.peak_bytes); }},
    Metric{"peak_chip", "memory/peak_chip", "megacpp_train_peak_memory_chip", MetricKind::gauge, "Which chip that is.",
           [](const StepReport& report) { return number(report.peak_chip); }},
    Metric{"busy_seconds", "host/busy_seconds", "megacpp_train_busy_seconds", MetricKind::gauge,
           "Time of a step in which the chip that others wait for works.",
           [](const StepReport& report) { return report.busy_seconds; }},
    Metric{"busy_chip", "host/busy_chip", "megacpp_train_busy_chip", MetricKind::gauge,
           "The chip that others wait for.", [](const StepReport& report) { return number(report.busy_chip); }},
};

constexpr std::array kExpertMetrics = {
    ExpertMetric{"imbalance", "megacpp_train_expert_imbalance_ratio", MetricKind::gauge,
                 "Requests for the busiest expert of a block over the mean.", false,
                 [](const ExpertShares& block) {
                   return block.share.empty() ? std::vector<double>() : std::vector<double>{block.imbalance()};
                 }},
    ExpertMetric{"share", "megacpp_train_expert_share_ratio", MetricKind::gauge,
                 "Share of a block's requests that an expert got.", true,
                 [](const ExpertShares& block) { return block.share; }},
    ExpertMetric{"dropped", "megacpp_train_expert_dropped_requests_total", MetricKind::counter,
                 "Requests for an expert beyond its capacity, in logged steps.", true,
                 [](const ExpertShares& block) { return block.dropped; }},
};

void append_block(const ExpertShares& block, std::vector<MetricValue>& values) {
  for (const ExpertMetric& metric : kExpertMetrics) {
    const std::vector<double> measured = metric.values(block);
    for (size_t expert = 0; expert < measured.size(); ++expert) {
      const std::string index = metric.is_by_expert ? std::to_string(expert) : "";
      const auto joined = [&](const std::string& by) {
        return "experts" + by + block.block + by + metric.name + (index.empty() ? "" : by + index);
      };
      values.push_back({.name = joined("."), .tag = joined("/"), .value = measured[expert]});
    }
  }
}

}  // namespace

std::span<const Metric> all_metrics() { return kMetrics; }

std::span<const ExpertMetric> expert_metrics() { return kExpertMetrics; }

std::vector<MetricValue> values_of(const train::StepReport& report) {
  std::vector<MetricValue> values;
  for (const Metric& metric : kMetrics)
    if (const Value value = metric.value(report))
      values.push_back({.name = metric.name, .tag = metric.tag, .value = *value});
  for (const ExpertShares& block : report.experts) append_block(block, values);
  return values;
}

}  // namespace megacpp::metrics
