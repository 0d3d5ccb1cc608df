// SPDX-License-Identifier: Apache-2.0
// What a layout should need, without compiling it: good enough to say which to compile first, and never printed as a
// result. Twins of the model (one period of its pattern, and two) are compiled once for a single chip at each level of
// recompute: blocks repeat, so bytes and seconds of the whole follow from their difference, and chips share them out.
// Traffic between chips is counted from the sizes of weights and activations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/fit/candidates.h"
#include "megacpp/fit/on_paper.h"

namespace megacpp::fit {

struct Estimate {
  double state = 0;    // bytes of the worst chip at least: weights, gradients, optimizer; without padding
  double bytes = 0;    // in all
  double seconds = 0;  // of a step
};

class Estimator {
 public:
  /// `ground` must outlive it.
  Estimator(const recipe::Recipe& recipe, const Ground& ground);

  /// The choice says its recompute.
  Estimate estimate(const LayoutChoice& choice) const;

 private:
  /// Of one sequence on one chip: what it has beside its blocks, and what a block adds.
  struct Cost {
    double bytes = 0, bytes_per_block = 0;
    double seconds = 0, seconds_per_block = 0;
  };
  Cost measure(const std::string& recompute) const;
  double weight_elements(bool of_experts) const;
  double traffic_seconds(const LayoutChoice& choice, const plan::Plan& plan, double compute) const;

  recipe::Recipe recipe_;
  const Ground& ground_;
  std::vector<blocks::Parameter> parameters_;
  std::map<std::string, Cost> costs_;  // by recompute
};

}  // namespace megacpp::fit
