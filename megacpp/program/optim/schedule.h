// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: one record each, in an explicit table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/optim/optimizer.h"

namespace megacpp::optim {

struct ScheduleDef {
  std::string_view name;  // as optimizer.schedule has it
  std::string_view doc;
  /// The recipe's keys that this schedule reads and others may not.
  std::vector<std::string_view> keys;
  /// The rate of a step after the warm-up.
  double (*rate)(const Optimizer& optimizer, int64_t step, int64_t steps) = nullptr;
  /// Steps at the end of a run that are the decay's alone and may not reach into the warm-up; nullptr: there are none.
  int64_t (*decay_steps)(const Optimizer& optimizer, int64_t steps) = nullptr;
};

/// The default first.
std::span<const ScheduleDef> all_schedules();
/// E1003 for a name that no record has, with those there are.
const ScheduleDef& schedule_def(std::string_view name);

std::vector<std::string> schedule_names();

}  // namespace megacpp::optim
