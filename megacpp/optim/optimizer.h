// SPDX-License-Identifier: Apache-2.0
// How parameters are updated: AdamW with decoupled weight decay and global-norm clipping, under a learning-rate
// schedule.
#pragma once

#include <cstdint>
#include <string>

namespace megacpp::optim {

struct Optimizer {
  double lr = 3e-4;
  double min_lr_ratio = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // 0 = off
  int64_t warmup_steps = 0;
  std::string schedule = "cosine";  // cosine | linear | constant

  bool operator==(const Optimizer&) const = default;
};

/// The rate of step `step` (from 0) out of `steps`: linear warm-up, then the schedule down to min_lr_ratio * lr.
double learning_rate(const Optimizer& optimizer, int64_t step, int64_t steps);

}  // namespace megacpp::optim
