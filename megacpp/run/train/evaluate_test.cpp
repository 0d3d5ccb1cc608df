// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/model/model.h"
#include "megacpp/run/train/decoder.h"
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

/// Documents that are read one by one.
EvaluateRequest reading(std::vector<std::vector<int32_t>> documents) {
  EvaluateRequest request;
  request.next_document = [documents = std::move(documents), next = size_t{0}](std::vector<int32_t>& tokens) mutable {
    if (next == documents.size()) return false;
    tokens = documents[next++];
    return true;
  };
  return request;
}

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
  std::vector<int64_t> batches;
  EvaluateRequest request = reading({tokens});
  request.on_batch = [&](int64_t predicted) { batches.push_back(predicted); };
  const Evaluation result = evaluate(recipe, weights, request);
  EXPECT_EQ(result.tokens, 69);
  EXPECT_EQ(batches, (std::vector<int64_t>{64, 69}));
  EXPECT_NEAR(result.loss, decoded_loss(recipe, weights, tokens), 1e-5);
  EXPECT_NEAR(result.bits_per_byte(138), result.loss / std::log(2.0) / 2, 1e-6);
}

// Where no block asks for the borders of documents, how the text is cut into them changes nothing.
TEST(EvaluateTest, DocumentsFollowEachOtherWithoutAGap) {
  const recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> tokens = text(70);
  const auto part = [&](size_t begin, size_t end) {
    return std::vector<int32_t>(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                tokens.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const Evaluation whole = evaluate(recipe, weights, reading({tokens}));
  const Evaluation parts =
      evaluate(recipe, weights, reading({{}, part(0, 1), part(1, 20), {}, part(20, 65), part(65, 70)}));
  EXPECT_EQ(parts.tokens, whole.tokens);
  EXPECT_EQ(parts.loss, whole.loss);
}

// Sequences of the recipe's length would take more memory than any machine has.
TEST(EvaluateTest, SequencesAreNoLongerThanTheTextAndNoMoreThanItHas) {
  recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> tokens = text(30);
  recipe.train.sequence = 29;
  const double expected = evaluate(recipe, weights, reading({tokens})).loss;
  recipe.train.sequence = int64_t{1} << 30;
  recipe.train.batch = 1 << 10;
  std::vector<int64_t> batches;
  EvaluateRequest request = reading({tokens});
  request.on_batch = [&](int64_t predicted) { batches.push_back(predicted); };
  EXPECT_NEAR(evaluate(recipe, weights, request).loss, expected, 1e-6);
  EXPECT_EQ(batches, std::vector<int64_t>{29});
  recipe.layout.context_parallel = 2;  // a sequence that it can split: a little longer than the text
  recipe.layout.data_parallel = 2;
  EXPECT_NEAR(evaluate(recipe, weights, reading({tokens})).loss, expected, 1e-5);
}

TEST(EvaluateTest, ALossThatIsNotFiniteIsRefused) {
  const recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  checkpoint::TensorMap weights = initial_weights(recipe.model);
  weights.begin()->second.data[0] = std::numeric_limits<float>::quiet_NaN();
  testing_support::problem_of(base::Code::E1302, [&] { evaluate(recipe, weights, reading({text(30)})); });
}

TEST(EvaluateTest, LayoutsGiveTheSameLoss) {
  recipe::Recipe recipe = recipe_of(testing_support::small_model("hybrid", "AEMR"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const std::vector<int32_t> tokens = text(70);
  const auto loss_of = [&](const recipe::Recipe& on) { return evaluate(on, weights, reading({tokens})).loss; };
  const double expected = loss_of(recipe);
  const auto with = [&](int64_t recipe::Layout::*degree) {
    recipe::Recipe split = recipe;
    split.layout.*degree = 2;
    return loss_of(split);
  };
  EXPECT_NEAR(with(&recipe::Layout::data_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::tensor_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::context_parallel), expected, 1e-5);
  EXPECT_NEAR(with(&recipe::Layout::pipeline_parallel), expected, 1e-5);
}

TEST(EvaluateTest, TextThatCannotBeReadIsRefused) {
  const recipe::Recipe recipe = recipe_of(testing_support::small_model("attention", "A"));
  const checkpoint::TensorMap weights = initial_weights(recipe.model);
  const auto refused = [&](base::Code code, const checkpoint::TensorMap& given,
                           const std::vector<std::vector<int32_t>>& documents) {
    testing_support::problem_of(code, [&] { evaluate(recipe, given, reading(documents)); });
  };
  refused(base::Code::E1101, weights, {});
  refused(base::Code::E1101, weights, {{1}, {}});
  refused(base::Code::E1102, weights, {{1, 99}});
  refused(base::Code::E1102, weights, {text(70), {99}});
  refused(base::Code::E1203, {}, {text(9)});
}

}  // namespace
}  // namespace megacpp::train
