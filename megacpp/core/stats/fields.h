// SPDX-License-Identifier: Apache-2.0
// The members of an effect as JSON has them (base/record.h). For .cpp files.
#pragma once

#include "megacpp/core/base/record.h"
#include "megacpp/core/stats/effect.h"

namespace megacpp::stats {

template <typename Visit, base::Is<Effect> Self>
void visit_fields(const Visit& visit, Self& effect) {
  visit("finding", effect.finding);
  visit("ratio", effect.ratio, "other over baseline");
  visit("low", effect.high ? std::optional(effect.low) : std::nullopt);
  visit("high", effect.high);
  visit("confidence", effect.confidence);
  visit("p_value", effect.p_value);
  visit("test", effect.test);
  visit("too_short", effect.too_short);
  visit("recommended_runs", effect.recommended_runs);
}

}  // namespace megacpp::stats
