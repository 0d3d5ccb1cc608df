// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "megacpp/base/error.h"
#include "megacpp/optim/optimizer.h"

namespace megacpp::optim {

double learning_rate(const Optimizer& optimizer, int64_t step, int64_t steps) {
  if (step < optimizer.warmup_steps)
    return optimizer.lr * static_cast<double>(step + 1) / static_cast<double>(optimizer.warmup_steps);
  if (optimizer.schedule == "constant") return optimizer.lr;
  const double span = static_cast<double>(std::max<int64_t>(1, steps - optimizer.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - optimizer.warmup_steps) / span);
  const double floor = optimizer.lr * optimizer.min_lr_ratio;
  if (optimizer.schedule == "linear") return floor + (optimizer.lr - floor) * (1.0 - progress);
  MEGACPP_CHECK(optimizer.schedule == "cosine") << "unknown schedule " << optimizer.schedule;
  return floor + (optimizer.lr - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace megacpp::optim
