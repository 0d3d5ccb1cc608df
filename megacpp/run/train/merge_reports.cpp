// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/merge_reports.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::train {

void merge_report(StepReport& report, const StepReport& other) {
  MEGACPP_CHECK(report.step == other.step) << "step " << other.step << " is no part of step " << report.step;
  for (const auto metric : {&StepReport::loss, &StepReport::cross_entropy, &StepReport::balance, &StepReport::dropped,
                            &StepReport::grad_norm})
    if (!(report.*metric)) report.*metric = other.*metric;
  if (report.experts.empty()) report.experts = other.experts;
  if (other.data_stalls.seconds > report.data_stalls.seconds) report.data_stalls = other.data_stalls;
  report.saving_seconds = std::max(report.saving_seconds, other.saving_seconds);
  report.host_syncs = std::max(report.host_syncs, other.host_syncs);
  report.programs_made = std::max(report.programs_made, other.programs_made);
  if (other.peak_bytes > report.peak_bytes) {  // nothing is less than anything
    report.peak_bytes = other.peak_bytes;
    report.peak_chip = other.peak_chip;
  }
  if (other.busy_seconds > report.busy_seconds) {
    report.busy_seconds = other.busy_seconds;
    report.busy_chip = other.busy_chip;
  }
}

}  // namespace megacpp::train
