// SPDX-License-Identifier: Apache-2.0
// Ways to route among four small experts that tests of E blocks go through.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "megacpp/program/blocks/feed_forward.h"

namespace megacpp::testing_support {

/// Widths of a routed and of the shared expert.
inline std::vector<std::pair<std::string, blocks::FeedForward>> expert_configs(int64_t intermediate, int64_t shared) {
  const blocks::FeedForward base = {.intermediate = intermediate, .experts = 4, .top_k = 2, .capacity_factor = 0.75};
  blocks::FeedForward dropless = base, by_experts = base, biased = base;
  dropless.capacity_factor = 0;
  by_experts.routing = blocks::RoutedBy::experts;
  biased.scoring = blocks::Scoring::sigmoid;
  biased.bias_rate = 0.1;
  biased.shared_intermediate = shared;
  return {{"capacity", base}, {"dropless", dropless}, {"expert_choice", by_experts}, {"biased_shared", biased}};
}

}  // namespace megacpp::testing_support
