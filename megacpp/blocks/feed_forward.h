// SPDX-License-Identifier: Apache-2.0
// E: a feed-forward block, dense (SwiGLU or relu^2) or of experts: token-choice top-k or expert-choice routing,
// capacity with counted drops or dropless, a shared expert, balance and z losses, loss-free bias balancing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace megacpp::blocks {

struct FeedForward {
  std::string activation = "swiglu";  // swiglu | relu2
  int64_t intermediate = 0;
  int64_t experts = 0;  // 0 = dense
  int64_t top_k = 2;
  std::string routing = "token_choice";  // token_choice | expert_choice
  std::string scoring = "softmax";       // softmax | sigmoid
  bool renormalise = true;
  double capacity_factor = 1.25;    // of each sequence; 0 = dropless
  int64_t shared_intermediate = 0;  // 0 = no shared expert
  double balance_loss = 0.01;
  std::string balance_over = "block";  // block | model
  double z_loss = 0;
  double bias_rate = 0;  // 0 = off

  bool is_gated() const { return activation == "swiglu"; }
  bool is_dropless() const { return routing == "token_choice" && capacity_factor == 0; }
  /// Tokens each expert takes of one sequence of that length; at least one, at most all.
  int64_t capacity(int64_t sequence) const {
    const double even = static_cast<double>(sequence * top_k) / static_cast<double>(experts);
    const double rows = std::ceil(even * (capacity_factor == 0 ? 1.0 : capacity_factor));
    return std::min(std::max<int64_t>(1, static_cast<int64_t>(rows)), sequence);
  }
  bool operator==(const FeedForward&) const = default;
};

}  // namespace megacpp::blocks
