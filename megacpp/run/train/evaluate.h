// SPDX-License-Identifier: Apache-2.0
// The loss of a model on held-out tokens, on any layout: documents are read once, one behind the other, cut into
// sequences, each token predicted from those before it in its sequence. One document at a time is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/name_map.h"

namespace megacpp::train {

struct EvaluateRequest {
  /// Puts the tokens of the next document into the vector; false behind the last one.
  std::function<bool(std::vector<int32_t>& tokens)> next_document;
  std::function<void(int64_t predicted)> on_batch = {};  // tokens so far
};

struct Evaluation {
  double loss = 0;     // mean over predicted tokens, in nats
  int64_t tokens = 0;  // predicted: all but the first

  /// `bytes`: of the text that the predicted tokens stand for.
  double bits_per_byte(int64_t bytes) const;
};

/// In batches of recipe.train.batch sequences of recipe.train.sequence tokens; of a text that does not fill one, as
/// long as the text is and as many as it has. E1101 for fewer than two tokens, E1102 for ids outside the vocabulary,
/// E1203 for weights that are not the model's, E1302 where the loss is not finite.
Evaluation evaluate(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights, const EvaluateRequest& request);

}  // namespace megacpp::train
