// SPDX-License-Identifier: Apache-2.0
// The choice of the next token from its logits. A choice depends on (seed, sequence, position) and the logits alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megacpp/core/base/philox.h"

namespace megacpp::train {

struct Sampling {
  double temperature = 1;  // 0: the most likely token, and nothing random
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // only the most likely that together have this probability
  uint64_t seed = 0;
};

class Sampler {
 public:
  /// E1003 for settings out of range.
  explicit Sampler(const Sampling& sampling);

  /// Of equal logits the lower id comes first. Allocates only until the first call.
  int32_t choose(std::span<const float> logits, int64_t sequence, int64_t position);

 private:
  Sampling sampling_;
  base::Philox random_;
  std::vector<int32_t> order_;   // ids, the most likely first
  std::vector<double> weights_;  // of the ids in that order
};

}  // namespace megacpp::train
