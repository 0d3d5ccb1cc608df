// SPDX-License-Identifier: Apache-2.0
// E: a feed-forward block, dense or of experts: token-choice top-k, limited to groups of experts or not, or
// expert-choice routing, capacity with counted drops or dropless, a shared expert, balance and z losses, loss-free bias
// balancing.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "megacpp/core/base/words.h"

namespace megacpp::blocks {

enum class ActivationFunction : uint8_t { swiglu, relu2, geglu, gelu, clamped_swiglu };
constexpr auto words_of(ActivationFunction) {
  return std::to_array<base::Word<ActivationFunction>>(
      {{ActivationFunction::swiglu, "swiglu", "gated SiLU, with three matrices"},
       {ActivationFunction::relu2, "relu2", "squared ReLU, with two"},
       {ActivationFunction::geglu, "geglu", "gated GELU in its tanh form, with three"},
       {ActivationFunction::gelu, "gelu", "GELU in its tanh form, with two"},
       {ActivationFunction::clamped_swiglu, "clamped_swiglu",
        "g sigmoid(clamp_slope g) (u + 1), with three, g at most and u within clamp_limit (gpt-oss)"}});
}

/// Who chooses.
enum class RoutedBy : uint8_t { tokens, experts };
constexpr auto words_of(RoutedBy) {
  return std::to_array<base::Word<RoutedBy>>({{RoutedBy::tokens, "token_choice", "each token its experts"},
                                              {RoutedBy::experts, "expert_choice", "each expert its tokens"}});
}

enum class Scoring : uint8_t { softmax, sigmoid };
constexpr auto words_of(Scoring) {
  return std::to_array<base::Word<Scoring>>({{Scoring::softmax, "softmax"}, {Scoring::sigmoid, "sigmoid"}});
}

enum class BalanceOver : uint8_t { block, model };
constexpr auto words_of(BalanceOver) {
  return std::to_array<base::Word<BalanceOver>>(
      {{BalanceOver::block, "block", "in each block"}, {BalanceOver::model, "model", "over all E blocks together"}});
}

struct FeedForward {
  ActivationFunction activation = ActivationFunction::swiglu;
  double clamp_limit = 7;      // of clamped_swiglu
  double clamp_slope = 1.702;  // likewise
  bool bias = false;           // on every matrix, the router's too
  int64_t intermediate = 0;
  int64_t experts = 0;  // 0 = dense
  int64_t top_k = 2;
  RoutedBy routing = RoutedBy::tokens;
  Scoring scoring = Scoring::softmax;
  bool renormalise = true;
  double routed_scale = 1;
  int64_t expert_groups = 1;
  int64_t top_groups = 1;
  bool selection_bias = false;
  double capacity_factor = 1.25;    // of each sequence; 0 = dropless
  int64_t shared_intermediate = 0;  // 0 = no shared expert
  double balance_loss = 0.01;
  BalanceOver balance_over = BalanceOver::block;
  double z_loss = 0;
  double bias_rate = 0;  // 0 = off

  bool is_gated() const { return activation != ActivationFunction::relu2 && activation != ActivationFunction::gelu; }
  /// Whether each expert has a number that steers how often it is chosen.
  bool has_selection_bias() const { return selection_bias || bias_rate > 0; }
  bool is_routed() const { return experts > 0; }
  bool is_dropless() const { return routing == RoutedBy::tokens && capacity_factor == 0; }
  /// Tokens each expert takes of one sequence of that length; at least one, at most all.
  int64_t capacity(int64_t sequence) const {
    const double even = static_cast<double>(sequence * top_k) / static_cast<double>(experts);
    const double rows = std::ceil(even * (capacity_factor == 0 ? 1.0 : capacity_factor));
    return std::min(std::max<int64_t>(1, static_cast<int64_t>(rows)), sequence);
  }
  bool operator==(const FeedForward&) const = default;
};

}  // namespace megacpp::blocks
