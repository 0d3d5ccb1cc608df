// SPDX-License-Identifier: Apache-2.0
// The members of a step's report (base/record.h), as lines of a log have them. For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/run/train/train.h"

namespace megacpp::train {

template <typename Visit, base::Is<ExpertShares> Self>
void visit_fields(const Visit& visit, Self& block) {
  visit("block", block.block);
  visit("share", block.share);
  visit("dropped", block.dropped);
  if constexpr (std::is_const_v<Self>) visit("imbalance", block.imbalance());  // of the shares, for readers of the log
}

template <typename Visit, base::Is<StepReport> Self>
void visit_fields(const Visit& visit, Self& report) {
  visit("step", report.step);
  visit("loss", report.loss);
  visit("cross_entropy", report.cross_entropy);
  visit("grad_norm", report.grad_norm);
  visit("learning_rate", report.learning_rate);
  visit("steps", report.steps);
  visit("seconds", report.seconds);
  visit("tokens", report.tokens);
  visit("balance", report.balance);
  visit("dropped", report.dropped);
  visit("experts", report.experts);
  visit("data_stalls", report.data_stalls.count);
  visit("data_stall_seconds", report.data_stalls.seconds);
  visit("step_seconds", report.step_seconds);
  visit("saving_seconds", report.saving_seconds);
  visit("host_syncs", report.host_syncs);
  visit("programs_made", report.programs_made);
  visit("peak_bytes", report.peak_bytes);
  visit("peak_chip", report.peak_chip);
  visit("busy_seconds", report.busy_seconds);
  visit("busy_chip", report.busy_chip);
  visit("logged_at", report.logged_at);
}

}  // namespace megacpp::train
