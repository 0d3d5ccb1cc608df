// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/pace.h"

namespace megacpp::train {

Pace pace_of(const std::vector<StepReport>& reports) {
  Pace pace{.is_warm = reports.size() > 1};
  for (size_t i = pace.is_warm ? 1 : 0; i < reports.size(); ++i) {
    pace.steps += reports[i].steps;
    pace.tokens += reports[i].tokens;
    pace.seconds += reports[i].seconds;
  }
  return pace;
}

}  // namespace megacpp::train
