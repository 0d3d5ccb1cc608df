// SPDX-License-Identifier: Apache-2.0
// A decoder's logits token by token against those of the training graph over whole sequences, for every family and
// option.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/model/model.h"
#include "megacpp/run/checkpoint/adapters.h"
#include "megacpp/run/train/decoder.h"
#include "megacpp/run/train/generate.h"
#include "megacpp/run/train/run_state.h"
#include "tests/support/errors.h"
#include "tests/support/relative_error.h"
#include "tests/support/small_models.h"

namespace megacpp::train {
namespace {

constexpr int64_t kSequences = 2, kLength = 10;

checkpoint::TensorMap random_weights(const recipe::Model& model) {
  checkpoint::TensorMap weights;
  for (const blocks::Parameter& parameter : model::parameters_of(model)) {
    checkpoint::FloatTensor& tensor = weights[parameter.name];
    tensor = {parameter.shape, std::vector<float>(static_cast<size_t>(ir::num_elements(parameter.shape)))};
    blocks::initialise(parameter, 7, 0, tensor.data);
    // Biases begin at zero, where their use could be missed.
    const base::Philox noise(3, parameter.name);
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] += static_cast<float>(0.05 * noise.normal(i));
  }
  return weights;
}

std::vector<int32_t> random_ids(int64_t vocab) {
  std::vector<int32_t> ids(static_cast<size_t>(kSequences * kLength));
  const base::Philox random(11, "ids");
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(random.word(i) % static_cast<uint32_t>(vocab));
  return ids;
}

// [sequences, length, vocab]
std::vector<float> whole_logits(const recipe::Model& model, const checkpoint::TensorMap& weights,
                                const std::vector<int32_t>& ids) {
  recipe::Recipe recipe;
  recipe.model = model;
  recipe.train.batch = kSequences;
  recipe.train.sequence = kLength;
  const plan::Plan plan;
  const runtime::Backend& backend = runtime::backend_named("cpu");
  const compile::Compiled compiled =
      compile::compile_forward(model::build_forward(model, {kSequences, kLength}, plan, true), plan,
                               runtime::target_on(backend, recipe::run_request(recipe), plan.parallel.mesh));
  runtime::LoadOptions loading = runtime::load_options(recipe::run_request(recipe), 1);
  loading.fetches = {"logits"};
  const auto run = runtime::load_on(backend, recipe::run_request(recipe), compiled, loading);
  RunState state(compiled, *run);
  for (const auto& [name, tensor] : weights) state.write<float>(name, tensor.data);
  state.stage<int32_t>("batch.ids", 0, ids);
  state.stage<int32_t>("batch.labels", 0, ids);
  if (state.stages("batch.segments")) state.stage<int32_t>("batch.segments", 0, std::vector<int32_t>(ids.size()));
  std::vector<int32_t> places(ids.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int32_t>(i % kLength);
  if (state.stages("batch.document_positions")) state.stage<int32_t>("batch.document_positions", 0, places);
  run->run_step(runtime::StepMode::plain);
  return run->fetch_f32("logits", 0);
}

// The tokens of all sequences from t on, as many as a step reads: [sequences, tokens]
std::vector<int32_t> tokens_from(const std::vector<int32_t>& ids, int64_t t, int64_t tokens) {
  std::vector<int32_t> part;
  for (int64_t s = 0; s < kSequences; ++s)
    for (int64_t i = 0; i < tokens; ++i) part.push_back(ids[static_cast<size_t>(s * kLength + t + i)]);
  return part;
}

// Reads `chunks` chunks of the decoder, and the rest token by token.
double largest_difference(Decoder& decoder, const std::vector<int32_t>& ids, const std::vector<float>& expected,
                          int64_t chunks = 0) {
  double worst = 0;
  const auto vocab = static_cast<size_t>(decoder.vocab());
  while (decoder.position() < kLength) {
    const int64_t t = decoder.position(), tokens = chunks-- > 0 ? decoder.chunk() : 1;
    const std::vector<int32_t> part = tokens_from(ids, t, tokens);
    const std::span<const float> logits = tokens > 1 ? decoder.read_chunk(part) : decoder.step(part);
    const auto run = static_cast<size_t>(tokens);
    for (size_t i = 0; i < logits.size(); ++i) {
      const size_t sequence = i / (run * vocab), token = static_cast<size_t>(t) + i / vocab % run;
      const size_t at = (sequence * kLength + token) * vocab + i % vocab;
      worst = std::max(worst, static_cast<double>(std::fabs(logits[i] - expected[at])));
    }
  }
  return worst;
}

TEST(DecodingTest, LogitsOfEveryFamilyAndOptionAreThoseOfTheTrainingGraph) {
  for (recipe::Model model : testing_support::small_models()) {
    SCOPED_TRACE(model.name);
    auto& experts = model.config<blocks::FeedForward>();
    if (experts.routing == blocks::RoutedBy::experts) continue;
    experts.capacity_factor = 0;  // a decoder drops nothing
    const checkpoint::TensorMap weights = random_weights(model);
    const std::vector<int32_t> ids = random_ids(model.vocab);
    const std::vector<float> expected = whole_logits(model, weights, ids);
    const double scale = std::fabs(*std::ranges::max_element(expected, {}, [](float x) { return std::fabs(x); }));
    Decoder decoder(model, weights, {.sequences = kSequences, .length = kLength, .threads = 1});
    EXPECT_LT(largest_difference(decoder, ids, expected), 2e-5 * scale);
    decoder.reset();
    EXPECT_LT(largest_difference(decoder, ids, expected), 2e-5 * scale) << "after a reset";
    Decoder chunked(model, weights, {.sequences = kSequences, .length = kLength, .prompt = 4, .threads = 1});
    ASSERT_EQ(chunked.chunk(), 4);
    EXPECT_LT(largest_difference(chunked, ids, expected, 2), 2e-5 * scale) << "in two chunks, then token by token";
    chunked.reset();
    EXPECT_LT(largest_difference(chunked, ids, expected, 1), 2e-5 * scale) << "in one chunk after a reset";
    chunked.reset();
    EXPECT_LT(largest_difference(chunked, ids, expected), 2e-5 * scale) << "without chunks";
  }
}

TEST(DecodingTest, ExpertsThatChooseTokensAreRefused) {
  const recipe::Model model = testing_support::with_experts("choice", blocks::RoutedBy::experts, 1.0);
  testing_support::problem_of(base::Code::E1505,
                              [&] { Decoder(model, random_weights(model), {.sequences = 1, .length = 4}); });
}

TEST(DecodingTest, WeightsOfAnotherModelAreNamed) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  checkpoint::TensorMap weights = random_weights(model);
  weights.erase("block02.M.D");
  EXPECT_EQ(
      testing_support::problem_of(base::Code::E1203, [&] { Decoder(model, weights, {.sequences = 1, .length = 4}); })
          .where,
      "tensor block02.M.D");
}

TEST(DecodingTest, ChunksLeaveFewKnownTokensOver) {
  const recipe::Model model = testing_support::small_model("attention", "A");
  const checkpoint::TensorMap weights = random_weights(model);
  for (const auto& [prompt, chunk] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 1}, {5, 5}, {64, 64}, {65, 32}})
    EXPECT_EQ(Decoder(model, weights, {.sequences = 1, .length = 80, .prompt = prompt, .threads = 1}).chunk(), chunk);
}

TEST(DecodingTest, NarrowComputeStaysNear) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  const checkpoint::TensorMap weights = random_weights(model);
  const std::vector<int32_t> ids = random_ids(model.vocab);
  const std::vector<float> expected = whole_logits(model, weights, ids);
  const double scale = std::fabs(*std::ranges::max_element(expected, {}, [](float x) { return std::fabs(x); }));
  Decoder decoder(model, weights,
                  {.sequences = kSequences, .length = kLength, .prompt = 4, .threads = 1, .compute = ir::DType::bf16});
  const double difference = largest_difference(decoder, ids, expected, 1);
  EXPECT_LT(difference, 0.1 * scale);
  EXPECT_GT(difference, 1e-5 * scale) << "computed in f32";
}

TEST(GenerateTest, ABatchOfPromptsGivesWhatEachGivesAlone) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  const checkpoint::TensorMap weights = random_weights(model);
  const GenerateRequest batch{.prompts = {{1, 2, 3, 4}, {5}, {6, 7}}, .new_tokens = 5, .sampling = {.temperature = 0}};
  Decoder decoder(model, weights, {.sequences = 3, .length = longest_sequence(batch), .threads = 1});
  const Generated together = generate(decoder, batch);
  EXPECT_EQ(together.positions, 8);  // the last token is not read
  Decoder single(model, weights, {.sequences = 1, .length = longest_sequence(batch), .threads = 1});
  for (size_t i = 0; i < batch.prompts.size(); ++i) {
    const Generated alone =
        generate(single, {.prompts = {batch.prompts[i]}, .new_tokens = 5, .sampling = {.temperature = 0}});
    EXPECT_EQ(alone.tokens[0], together.tokens[i]) << i;
  }
}

TEST(GenerateTest, PromptsInChunksGiveTheSameTokensAndLogits) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  const checkpoint::TensorMap weights = random_weights(model);
  GenerateRequest request{
      .prompts = {{1, 2, 3, 4, 5, 6}, {5, 4, 3, 2}}, .new_tokens = 5, .sampling = {.temperature = 0}};
  const auto generated = [&](int64_t prompt, std::vector<float>& seen) {
    Decoder decoder(model, weights,
                    {.sequences = 2, .length = longest_sequence(request), .prompt = prompt, .threads = 1});
    request.on_logits = [&](int64_t, std::span<const float> row) { seen.insert(seen.end(), row.begin(), row.end()); };
    return generate(decoder, request);
  };
  std::vector<float> one_by_one, in_chunks;
  const Generated expected = generated(0, one_by_one), chunked = generated(shortest_prompt(request), in_chunks);
  EXPECT_EQ(chunked.tokens, expected.tokens);
  EXPECT_EQ(chunked.positions, expected.positions);
  ASSERT_EQ(in_chunks.size(), one_by_one.size());
  for (size_t i = 0; i < in_chunks.size(); ++i) EXPECT_NEAR(in_chunks[i], one_by_one[i], 1e-4);
}

TEST(GenerateTest, TheSameSeedGivesTheSameTokensAndAnEndStops) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  const checkpoint::TensorMap weights = random_weights(model);
  Decoder decoder(model, weights, {.sequences = 1, .length = 40, .threads = 1});
  std::vector<int32_t> streamed;
  GenerateRequest request{
      .prompts = {{1}}, .new_tokens = 30, .sampling = {.seed = 5}, .on_token = [&](size_t, int32_t token) {
        streamed.push_back(token);
      }};
  const std::vector<int32_t> first = generate(decoder, request).tokens[0];
  EXPECT_EQ(streamed, first);
  EXPECT_EQ(generate(decoder, request).tokens[0], first);
  request.sampling.seed = 6;
  EXPECT_NE(generate(decoder, request).tokens[0], first);
  request.sampling.seed = 5;
  request.end = first[3];
  const std::vector<int32_t> ended = generate(decoder, request).tokens[0];
  EXPECT_LE(ended.size(), 4u);
  EXPECT_EQ(ended.back(), first[3]);
}

// What a command shows while it reads: every chunk, then every token.
TEST(GenerateTest, ItSaysHowFarThePromptsAreRead) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  GenerateRequest request{.prompts = {{1, 2, 3, 4, 5, 6}}, .new_tokens = 2, .sampling = {.temperature = 0}};
  std::vector<int64_t> read;
  request.on_read = [&](int64_t positions) { read.push_back(positions); };
  Decoder decoder(model, random_weights(model),
                  {.sequences = 1, .length = longest_sequence(request), .prompt = 6, .threads = 1});
  const Generated generated = generate(decoder, request);
  ASSERT_EQ(decoder.chunk(), 6);
  EXPECT_EQ(read, (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(generated.positions, 7);
}

TEST(GenerateTest, NothingIsChosenByLogitsThatAreNotFinite) {
  const recipe::Model model = testing_support::small_model("hybrid", "AEMR");
  checkpoint::TensorMap weights = random_weights(model);
  weights.begin()->second.data[0] = std::numeric_limits<float>::quiet_NaN();
  Decoder decoder(model, weights, {.sequences = 1, .length = 8, .threads = 1});
  size_t made = 0;
  const GenerateRequest request{.prompts = {{1, 2}}, .new_tokens = 4, .on_token = [&](size_t, int32_t) { ++made; }};
  testing_support::problem_of(base::Code::E1302, [&] { generate(decoder, request); });
  EXPECT_EQ(made, 0U);
}

TEST(GenerateTest, PromptsThatCannotBeReadAreRefused) {
  const recipe::Model model = testing_support::small_model("attention", "A");
  Decoder decoder(model, random_weights(model), {.sequences = 1, .length = 8, .threads = 1});
  for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{}, {99}, {-1}})
    testing_support::problem_of(base::Code::E1102, [&] { generate(decoder, {.prompts = {prompt}, .new_tokens = 2}); });
}

TEST(DecodingTest, MergedAdaptersGiveTheLogitsOfTheAdaptedModel) {
  for (recipe::Model model : testing_support::small_models()) {
    SCOPED_TRACE(model.name);
    model.lora = {.rank = 2, .alpha = 3};
    checkpoint::TensorMap weights = random_weights(model);
    const std::vector<int32_t> ids = random_ids(model.vocab);
    const std::vector<float> adapted = whole_logits(model, weights, ids);
    checkpoint::TensorMap base = weights;
    std::erase_if(base, [](const auto& tensor) { return blocks::is_adapter(tensor.first); });
    checkpoint::merge_adapters(weights, model.lora.alpha);
    model.lora = {};
    const std::vector<float> merged = whole_logits(model, weights, ids), plain = whole_logits(model, base, ids);
    EXPECT_LT(testing_support::relative_error(merged, adapted), 2e-5);
    EXPECT_GT(testing_support::relative_error(plain, adapted), 1e-3) << "the adapters matter";
  }
}

}  // namespace
}  // namespace megacpp::train
