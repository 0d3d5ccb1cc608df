// SPDX-License-Identifier: Apache-2.0
// How parameters are updated, as a recipe says it: which optimizer, its hyper-parameters, clipping, and the
// learning-rate schedule. What each optimizer is stands in its record (optimizer_def.h).
#pragma once

#include <cstdint>
#include <string>

namespace megacpp::optim {

struct Optimizer {
  std::string name = "adamw";  // of a record in optimizer_list.inc
  double lr = 3e-4;
  double min_lr_ratio = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.1;
  double clip = 1.0;  // 0 = off
  int64_t warmup_steps = 0;
  std::string schedule = "cosine";  // cosine | linear | constant

  bool operator==(const Optimizer&) const = default;
};

/// The rate of step `step` (from 0) out of `steps`: linear warm-up, then the schedule down to min_lr_ratio * lr.
double learning_rate(const Optimizer& optimizer, int64_t step, int64_t steps);

}  // namespace megacpp::optim
