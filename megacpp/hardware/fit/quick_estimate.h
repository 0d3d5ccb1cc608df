// SPDX-License-Identifier: Apache-2.0
// What a layout should need, without compiling it: good enough to say which to compile first, and never printed as a
// result. Twins of the model that differ by one period of its pattern, and in their batch, are compiled once for a
// single chip at each level of recompute: blocks repeat, so bytes and seconds of the whole follow from them, and chips
// share them out. What grows with the batch is kept apart from what weights take beside their state, since layouts
// divide the two differently. Traffic between chips is counted from the sizes of weights and activations.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/thread_pool.h"
#include "megacpp/hardware/fit/candidates.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/plan/parameter_table.h"

namespace megacpp::fit {

struct QuickEstimate {
  double least = 0;    // bytes that no plan of it goes below on its worst chip: state that every program shares
  double state = 0;    // weights, gradients and optimizer of the worst chip, without padding
  double bytes = 0;    // in all
  double seconds = 0;  // of a step
};

class QuickEstimator {
 public:
  /// `assumptions` must outlive it; twins are compiled on the pool.
  QuickEstimator(const recipe::Recipe& recipe, const Assumptions& assumptions, base::ThreadPool& pool);

  /// By level of recompute, as kRecomputeLevels has them; what the choice says of it is not looked at.
  std::array<QuickEstimate, 3> estimates(const LayoutChoice& choice);

 private:
  /// A twin of the model, compiled. Bytes are beside weights, gradients and optimizer state.
  struct Twin {
    double bytes = 0, micro_seconds = 0, update_seconds = 0, elements = 0;
  };
  /// Bytes or seconds of a micro-step on one chip: of its sequences, beside the blocks and in each of them, and what
  /// does not depend on how many there are, of an element of the weights and besides.
  struct Amount {
    double per_sequence = 0, per_sequence_and_block = 0;
    double per_element = 0, besides = 0;

    double of_sequence(double blocks) const { return per_sequence + per_sequence_and_block * blocks; }
  };
  struct Cost {
    Amount bytes, seconds;
    double update_seconds = 0;  // of an element of the weights
  };
  using TwinsOfLevel = std::array<std::array<Twin, 2>, 2>;  // by depth, then batch, the lesser first
  Twin compile_twin(recipe::RecomputeLevel recompute, int64_t depth, int64_t batch) const;
  std::array<TwinsOfLevel, 3> compile_twins(base::ThreadPool& pool) const;  // by level of recompute
  Cost cost_of(const TwinsOfLevel& twins) const;
  double bubble_share(const plan::Plan& plan, int64_t micro_steps);  // of a step's work
  double traffic_seconds(const LayoutChoice& choice, const plan::Plan& plan, double held, double compute) const;

  recipe::Recipe recipe_;
  const Assumptions& assumptions_;
  double element_bytes_;  // of weights and activations in compute
  /// Parameters that differ in the number of their block alone.
  struct Alike {
    blocks::Parameter parameter;
    int64_t count = 0;
  };
  static std::vector<Alike> alike_parameters(const recipe::Model& model);
  plan::StateBytes state_bytes(const plan::Plan& plan) const;  // of the whole model

  std::vector<Alike> parameters_;
  double dense_elements_ = 0, expert_elements_ = 0;
  std::array<Cost, 3> costs_;                              // by level of recompute
  std::map<std::pair<int64_t, int64_t>, double> bubbles_;  // by stages and micro-steps: layouts share them
};

}  // namespace megacpp::fit
