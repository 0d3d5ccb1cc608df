// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/model/router_losses.h"

#include <vector>

namespace megacpp::model {

using ir::ValueId;

// The sums before the first block are zeros, each its own: so that block reads and adds as the others do, and a loop
// over equal blocks takes it in.
void RouterLosses::start(char letter, const blocks::Router& router) {
  if (router.experts == 0) return;
  const bool is_first = sums_.empty();
  Sums& sums = sums_[letter];
  sums.router = router;
  builder_.set_scope("routers");
  if (router.balance_over_model) {
    sums.counts = builder_.constant(0.0, {router.experts});
    sums.probabilities = builder_.constant(0.0, {router.experts});
  } else {
    sums.balance = builder_.constant(0.0);
  }
  if (router.z_loss > 0) sums.z = builder_.constant(0.0);
  if (is_first) dropped_ = builder_.constant(0.0);
}

// Switch-style balance loss: experts * sum_e (requests_e / tokens) (probability_e / tokens), over k; perfect balance is
// 1 per block. Over the whole model requests and probabilities are added up first, as Mixtral does, and not divided by
// k.
ValueId RouterLosses::balance(int64_t experts, ValueId counts, ValueId probabilities, double divisor) const {
  const double scale = static_cast<double>(experts) / divisor;
  return builder_.scale(builder_.sum_all(builder_.mul(counts, probabilities)), scale);
}

void RouterLosses::add(char letter, const blocks::RouterStats& stats) {
  ops::Scope scope(builder_, "losses");
  Sums& sums = sums_.at(letter);
  const blocks::Router& router = sums.router;
  const auto add_to = [this](ValueId& sum, ValueId value) { sum = builder_.add(sum, value); };
  if (router.balance_over_model) {
    add_to(sums.counts, stats.counts);
    add_to(sums.probabilities, stats.probability_sum);
  } else {
    add_to(sums.balance, balance(router.experts, stats.counts, stats.probability_sum,
                                 tokens_ * tokens_ * static_cast<double>(router.top_k)));
  }
  if (router.z_loss > 0) add_to(sums.z, stats.square_lse_mean);
  add_to(dropped_, builder_.sum_all(stats.dropped));
  sums.blocks += 1;
}

ValueId RouterLosses::aux_of(const Sums& sums, double all_blocks) const {
  if (!sums.router.balance_over_model) return builder_.scale(sums.balance, 1.0 / all_blocks);
  const double tokens = tokens_ * sums.blocks;
  const ValueId aux = balance(sums.router.experts, sums.counts, sums.probabilities, tokens * tokens);
  return sums.blocks == all_blocks ? aux : builder_.scale(aux, sums.blocks / all_blocks);
}

ValueId RouterLosses::total(ir::Graph& graph) {
  ops::Builder& b = builder_;
  double blocks = 0;
  for (const auto& [letter, sums] : sums_) blocks += sums.blocks;
  std::map<char, ValueId> parts;
  for (const auto& [letter, sums] : sums_) parts[letter] = aux_of(sums, blocks);
  ValueId aux = parts.begin()->second;
  for (auto part = std::next(parts.begin()); part != parts.end(); ++part) aux = b.add(aux, part->second);
  graph.add_output({.name = "aux", .value = aux});
  // Counted again here, so that a pipeline puts it out with the loss.
  graph.add_output({.name = "dropped", .value = b.max(dropped_, b.constant(0.0))});
  std::vector<ValueId> losses;
  for (const auto& [letter, sums] : sums_) {
    losses.push_back(b.scale(parts.at(letter), sums.router.balance_loss));
    if (sums.router.z_loss > 0) losses.push_back(b.scale(sums.z, sums.router.z_loss / blocks));
  }
  ValueId total = losses[0];
  for (size_t i = 1; i < losses.size(); ++i) total = b.add(total, losses[i]);
  return total;
}

}  // namespace megacpp::model
