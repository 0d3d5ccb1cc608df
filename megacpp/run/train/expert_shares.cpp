// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/expert_shares.h"

#include <algorithm>
#include <numeric>

namespace megacpp::train {

double ExpertShares::imbalance() const {
  return share.empty() ? 0 : std::ranges::max(share) * static_cast<double>(share.size());
}

std::vector<std::string> expert_fetches(const compile::Compiled& compiled) {
  std::vector<std::string> names;
  for (const model::ExpertLoad& load : compiled.expert_loads) {
    names.push_back(load.counts_name());
    names.push_back(load.dropped_name());
  }
  return names;
}

std::vector<ExpertShares> read_expert_shares(const compile::Compiled& compiled, const RunState& state) {
  std::vector<ExpertShares> blocks;
  for (const model::ExpertLoad& load : compiled.expert_loads) {
    ExpertShares shares{load.block, state.summed_output(load.counts_name()), state.summed_output(load.dropped_name())};
    const double requests = std::accumulate(shares.share.begin(), shares.share.end(), 0.0);
    if (!(requests > 0) || shares.dropped.size() != shares.share.size()) continue;
    for (double& share : shares.share) share /= requests;
    blocks.push_back(std::move(shares));
  }
  return blocks;
}

const ExpertShares* most_uneven(const std::vector<ExpertShares>& blocks) {
  const auto at = std::ranges::max_element(blocks, {}, &ExpertShares::imbalance);
  return at == blocks.end() ? nullptr : &*at;
}

}  // namespace megacpp::train
