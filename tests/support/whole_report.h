// SPDX-License-Identifier: Apache-2.0
// A logged step of which everything was measured.
#pragma once

#include "megacpp/run/train/train.h"

namespace megacpp::testing_support {

inline train::StepReport whole_report() {
  train::StepReport report{
      .step = 19, .loss = 2.5, .cross_entropy = 2.25, .balance = 1.5, .dropped = 3, .grad_norm = 0.5};
  report.learning_rate = 1e-3;
  report.steps = 2;
  report.seconds = 0.75;
  report.tokens = 4096;
  report.experts = {{.block = "block03", .share = {0.25, 0.75}, .dropped = {0, 3}}};
  report.data_stalls = {.count = 1, .seconds = 0.125};
  report.step_seconds = {0.25, 0.375};
  report.saving_seconds = 0.0625;
  report.host_syncs = 1;
  report.programs_made = 2;
  report.peak_bytes = 1 << 20;
  report.peak_chip = 3;
  report.busy_seconds = 0.25;
  report.busy_chip = 2;
  report.logged_at = 1794830400.125;
  return report;
}

}  // namespace megacpp::testing_support
