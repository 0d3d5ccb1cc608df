// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/base/philox.h"
#include "megacpp/model/model.h"
#include "megacpp/train/decoder.h"
#include "tests/support/errors.h"
#include "tests/support/small_models.h"

namespace megacpp::train {
namespace {

recipe::Recipe recipe_of(const recipe::Model& model) {
  recipe::Recipe recipe;
  recipe.name = "held-out";
  recipe.model = model;
  recipe.train.batch = 4;
  recipe.train.sequence = 16;  // in halves of halves, each longer than convolutions look back
  recipe.train.steps = 1;
  recipe.train.threads = 1;
  return recipe;
}

checkpoint::TensorMap initial_weights(const recipe::Model& model) {
  checkpoint::TensorMap weights;
  for (const blocks::Parameter& parameter : model::parameters_of(model)) {
    checkpoint::FloatTensor& tensor = weights[parameter.name];
    tensor = {parameter.shape, std::vector<float>(static_cast<size_t>(ir::num_elements(parameter.shape)))};
    blocks::initialise(parameter, 7, 0, tensor.data);
  }
  return weights;
}

std::vector<int32_t> text(size_t length) {
  std::vector<int32_t> tokens(length);
  const base::Philox random(11, "text");
  for (size_t i = 0; i < length; ++i) tokens[i] = static_cast<int32_t>(random.word(i) % 11);
  return tokens;
}

const std::vector<int64_t> kOneDocument = {0};

// Mean loss of a decoder that forgets after every sequence.
double decoded_loss(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights,
                    const std::vector<int32_t>& tokens) {
  Decoder decoder(recipe.model, weights, {.sequences = 1, .length = recipe.train.sequence, .threads = 1});
  double nats = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (i % static_cast<size_t>(recipe.train.sequence) == 0) decoder.reset();
    const std::span<const float> logits = decoder.step({&tokens[i], 1});
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    nats += std::log(sum) - static_cast<double>(logits[static_cast<size_t>(tokens[i + 1])]);
  }
  return nats / static_cast<double>(tokens.size() - 1);
}

TEST(EvaluateTest, EveryTokenButTheFirstCountsOnce) {
  const recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> tokens = text(70);  // a batch and a part
  int64_t batches = 0;
  const Evaluation result = evaluate(
      recipe, weights,
      {.tokens = tokens, .begins = kOneDocument, .bytes = 138, .on_batch = [&](int64_t, int64_t) { ++batches; }});
  EXPECT_EQ(result.tokens, 69);
  EXPECT_EQ(batches, 2);
  EXPECT_NEAR(result.loss, decoded_loss(recipe, weights, tokens), 1e-5);
  EXPECT_NEAR(result.bits_per_byte, result.loss / std::log(2.0) / 2, 1e-6);
}

TEST(EvaluateTest, LayoutsGiveTheSameLoss) {
  recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> tokens = text(70);
  const EvaluateRequest request{.tokens = tokens, .begins = kOneDocument, .bytes = 69};
  const double expected = evaluate(recipe, weights, request).loss;
  const auto with = [&](int64_t recipe::Layout::*degree) {
    recipe::Recipe split = recipe;
    split.layout.*degree = 2;
    return evaluate(split, weights, request).loss;
  };
  EXPECT_NEAR(with(&recipe::Layout::data_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::tensor_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::context_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::pipeline_parallel), expected, 1e-5);
}

TEST(EvaluateTest, TextThatCannotBeReadIsRefused) {
  const recipe::Recipe recipe = recipe_of(testing_support::small_model("attention", "A"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> one = {1}, strange = {1, 99};
  testing_support::problem_of(base::Code::E1101,
                              [&] { evaluate(recipe, weights, {.tokens = one, .begins = kOneDocument}); });
  testing_support::problem_of(base::Code::E1102,
                              [&] { evaluate(recipe, weights, {.tokens = strange, .begins = kOneDocument}); });
  testing_support::problem_of(base::Code::E1203,
                              [&] { evaluate(recipe, {}, {.tokens = text(9), .begins = kOneDocument}); });
}

}  // namespace
}  // namespace megacpp::train
