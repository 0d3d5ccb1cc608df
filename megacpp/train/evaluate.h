// SPDX-License-Identifier: Apache-2.0
// The loss of a model on held-out tokens, on any layout: the text is read once, in sequences one behind the other, each
// token predicted from those before it in its sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "megacpp/checkpoint/name_map.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::train {

struct EvaluateRequest {
  std::span<const int32_t> tokens;  // at least two
  std::span<const int64_t> begins;  // of documents among the tokens, ascending, the first is 0
  int64_t bytes = 0;                // of the text that all tokens but the first stand for
  std::function<void(int64_t done, int64_t all)> on_batch = {};
};

struct Evaluation {
  double loss = 0;     // mean over predicted tokens, in nats
  int64_t tokens = 0;  // predicted
  double bits_per_byte = 0;
};

/// In batches of recipe.train.batch sequences of recipe.train.sequence tokens. E1101 for fewer than two tokens, E1102
/// for ids outside the vocabulary, E1203 for weights that are not the model's.
Evaluation evaluate(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights, const EvaluateRequest& request);

}  // namespace megacpp::train
