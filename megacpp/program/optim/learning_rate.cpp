// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "megacpp/core/base/error.h"
#include "megacpp/program/optim/schedule.h"

namespace megacpp::optim {
namespace {

double cosine_share(double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress)); }
double linear_share(double progress) { return 1.0 - progress; }

// From lr down to the floor, by the share of the way that is left.
double between_floor_and_peak(const Optimizer& optimizer, double share) {
  const double floor = optimizer.lr * optimizer.min_lr_ratio;
  return floor + (optimizer.lr - floor) * share;
}

// From the end of the warm-up (0) to the end of the run (1).
double progress_after_warmup(const Optimizer& optimizer, int64_t step, int64_t steps) {
  const double span = static_cast<double>(std::max<int64_t>(1, steps - optimizer.warmup_steps));
  return std::min(1.0, static_cast<double>(step - optimizer.warmup_steps) / span);
}

double cosine(const Optimizer& optimizer, int64_t step, int64_t steps) {
  return between_floor_and_peak(optimizer, cosine_share(progress_after_warmup(optimizer, step, steps)));
}

double linear(const Optimizer& optimizer, int64_t step, int64_t steps) {
  return between_floor_and_peak(optimizer, linear_share(progress_after_warmup(optimizer, step, steps)));
}

double constant(const Optimizer& optimizer, int64_t, int64_t) { return optimizer.lr; }

double decay_share(WsdShape shape, double progress) {
  switch (shape) {
    case WsdShape::sqrt:
      return 1.0 - std::sqrt(progress);
    case WsdShape::linear:
      return linear_share(progress);
    case WsdShape::cosine:
      return cosine_share(progress);
  }
  return 0;
}

int64_t wsd_decay_steps(const Optimizer& optimizer, int64_t steps) {
  return static_cast<int64_t>(std::llround(optimizer.wsd.decay * static_cast<double>(steps)));
}

double warmup_stable_decay(const Optimizer& optimizer, int64_t step, int64_t steps) {
  const int64_t decaying = wsd_decay_steps(optimizer, steps), done = step - (steps - decaying);
  if (done < 0 || decaying == 0) return optimizer.lr;
  const double progress = std::min(1.0, static_cast<double>(done) / static_cast<double>(decaying));
  return between_floor_and_peak(optimizer, decay_share(optimizer.wsd.shape, progress));
}

std::string listed_names() {
  std::string names;
  for (const std::string& each : schedule_names()) names += (names.empty() ? "" : ", ") + each;
  return names;
}

}  // namespace

std::span<const ScheduleDef> all_schedules() {
  static const std::vector<ScheduleDef> table = {
      {.name = "cosine",
       .doc = "half a cosine down to min_lr_ratio",
       .keys = {"optimizer.min_lr_ratio"},
       .rate = cosine},
      {.name = "linear", .doc = "a line down to min_lr_ratio", .keys = {"optimizer.min_lr_ratio"}, .rate = linear},
      {.name = "constant", .doc = "the peak", .keys = {}, .rate = constant},
      {.name = "wsd",
       .doc = "the peak, then down to min_lr_ratio in the last part of the run (warm-up, stable, decay)",
       .keys = {"optimizer.min_lr_ratio", "optimizer.wsd.decay", "optimizer.wsd.shape"},
       .rate = warmup_stable_decay,
       .decay_steps = wsd_decay_steps}};
  return table;
}

const ScheduleDef& schedule_def(std::string_view name) {
  const std::span<const ScheduleDef> all = all_schedules();
  const auto at = std::ranges::find(all, name, &ScheduleDef::name);
  MEGACPP_REQUIRE(at != all.end(), E1003,
                  {.where = "optimizer.schedule",
                   .got = "'" + std::string(name) + "'",
                   .wanted = "one of " + listed_names(),
                   .next = "take one of these"});
  return *at;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleDef& schedule : all_schedules()) names.emplace_back(schedule.name);
  return names;
}

double learning_rate(const Optimizer& optimizer, int64_t step, int64_t steps) {
  if (step < optimizer.warmup_steps)
    return optimizer.lr * static_cast<double>(step + 1) / static_cast<double>(optimizer.warmup_steps);
  return schedule_def(optimizer.schedule).rate(optimizer, step, steps);
}

}  // namespace megacpp::optim
