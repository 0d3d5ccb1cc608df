// SPDX-License-Identifier: Apache-2.0
// What a layout should need, without compiling it: good enough to say which to compile first, and never printed as a
// result. Twins of the model that differ by one period of its pattern are compiled once for a single chip at each level
// of recompute: blocks repeat, so bytes and seconds of the whole follow from them, and chips share them out.
// Traffic between chips is counted from the sizes of weights and activations.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/fit/candidates.h"
#include "megacpp/fit/estimate.h"

namespace megacpp::fit {

struct QuickEstimate {
  double state = 0;    // bytes of the worst chip at least: weights, gradients, optimizer; without padding
  double bytes = 0;    // in all
  double seconds = 0;  // of a step
};

class QuickEstimator {
 public:
  /// `assumptions` must outlive it.
  QuickEstimator(const recipe::Recipe& recipe, const Assumptions& assumptions);

  /// By level of recompute, as kRecomputeLevels has them; what the choice says of it is not looked at.
  std::array<QuickEstimate, 3> estimates(const LayoutChoice& choice);

 private:
  /// Of one sequence on one chip: what it has beside its blocks, and what a block adds. Weights are counted apart: they
  /// are read, copied and updated however few tokens a chip has.
  struct Cost {
    double bytes = 0, bytes_per_block = 0;
    double seconds = 0, seconds_per_block = 0;
    double update_seconds = 0;  // of an element of the weights
  };
  Cost measure(const std::string& recompute) const;
  double copy_bytes() const;  // of a weight, beside its state: its copy in the precision of compute
  double bubble_share(const plan::Plan& plan, int64_t micro_steps);  // of a step's work
  double traffic_seconds(const LayoutChoice& choice, const plan::Plan& plan, double held, double compute) const;

  recipe::Recipe recipe_;
  const Assumptions& assumptions_;
  hw::Chip device_;
  double element_bytes_;  // of weights and activations in compute
  std::vector<blocks::Parameter> parameters_;
  double dense_elements_ = 0, expert_elements_ = 0;
  std::array<Cost, 3> costs_;                              // by level of recompute
  std::map<std::pair<int64_t, int64_t>, double> bubbles_;  // by stages and micro-steps: layouts share them
};

}  // namespace megacpp::fit
