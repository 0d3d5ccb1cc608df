// SPDX-License-Identifier: Apache-2.0
// Activations of one layer against Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
// (arXiv:2205.05198), section 4 and table 2, and against Megatron-LM's report (theoretical_memory_usage.py), which
// counts the same with any inner width. Every tensor stands with what they keep of it and what we keep. The first
// column must sum to the published formula and the second to our plan, both to the byte: so what we differ by is
// exactly the lines in which the two are not alike.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/published/dense_transformer.h"

namespace megacpp::published {
namespace {

enum class Recompute : uint8_t { none, selective, full };

recipe::RecomputeLevel level_of(Recompute recompute) {
  using recipe::RecomputeLevel;
  constexpr RecomputeLevel kLevels[] = {RecomputeLevel::none, RecomputeLevel::selective, RecomputeLevel::full};
  return kLevels[static_cast<size_t>(recompute)];
}

/// How the t chips of tensor parallelism share a tensor.
enum class Split : uint8_t { never, with_sequence_parallel, always };

struct Part {
  int64_t bytes = 0;  // of all t chips
  Split split = Split::never;
};

struct Tensor {
  std::string what;
  Part published;
  Part ours;
};

struct Row {
  std::string name;
  std::string source;
  Recompute published, ours;
  int64_t chips = 1;  // t
  bool sequence_parallel = false;
  Sizes sizes = {};

  int64_t on_a_chip(const Part& part) const {
    const bool is_split =
        part.split == Split::always || (part.split == Split::with_sequence_parallel && sequence_parallel);
    return is_split ? part.bytes / chips : part.bytes;
  }
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// GPT-3 (section 5: 5as/h = 80), of which four layers do.
constexpr Sizes kGpt3{
    .layers = 4, .hidden = 12288, .heads = 96, .inner = 4 * 12288, .vocab = 51200, .sequence = 2048, .batch = 1};
constexpr Sizes kNarrow{.inner = 3 * 64};

std::vector<Row> all_rows() {
  using enum Recompute;
  const std::string table = "table 2: ", report = "theoretical_memory_usage.py: ";
  return {
      {"one_chip", table + "sbh(34 + 5as/h)", none, none},
      {"tensor", table + "sbh(10 + 24/t + 5as/(ht))", none, none, 2},
      {"tensor_sequence", table + "sbh/t (34 + 5as/h)", none, none, 2, true},
      // We never keep scores: what they call selective we do in any case.
      {"tensor_selective", table + "sbh(10 + 24/t)", selective, none, 2},
      {"tensor_sequence_selective", table + "34 sbh/t", selective, none, 2, true},
      {"tensor_both_selective", table + "sbh(10 + 24/t)", selective, selective, 2},
      {"tensor_sequence_both_selective", table + "34 sbh/t", selective, selective, 2, true},
      {"full", table + "2 sbh", full, full},
      {"tensor_full", table + "2 sbh", full, full, 2},
      {"tensor_sequence_full", table + "2 sbh", full, full, 2, true},
      {"narrow", report + "sbh(18 + 4 ffn/h)", selective, none, 1, false, kNarrow},
      {"narrow_tensor_sequence", report + "sbh(18 + 4 ffn/h)/t", selective, selective, 2, true, kNarrow},
      {"gpt3_tensor", table + "sbh(10 + 24/t + 5as/(ht))", none, none, 8, false, kGpt3},
      {"gpt3_tensor_sequence", table + "sbh/t (34 + 5as/h)", none, none, 8, true, kGpt3},
      {"gpt3_tensor_sequence_both_selective", table + "34 sbh/t", selective, selective, 8, true, kGpt3},
      {"gpt3_tensor_sequence_full", table + "2 sbh", full, full, 8, true, kGpt3},
  };
}

int64_t published_formula(const Row& row) {
  const Sizes& z = row.sizes;
  const int64_t core = row.published == Recompute::none ? 5 * z.heads * z.sequence * z.sequence * z.batch : 0;
  const int64_t inner = 4 * z.sequence * z.batch * z.inner;  // 16 sbh at the paper's width
  if (row.published == Recompute::full) return 2 * z.sbh();
  if (row.sequence_parallel) return (18 * z.sbh() + inner + core) / row.chips;
  return 10 * z.sbh() + (8 * z.sbh() + inner + core) / row.chips;
}

std::vector<Tensor> tensors_of(const Row& row) {
  constexpr Split kTokens = Split::with_sequence_parallel, kHeads = Split::always;
  const Sizes& z = row.sizes;
  const int64_t tokens = z.sequence * z.batch, sbh = z.sbh(), inner = tokens * z.inner;
  const int64_t scores = z.heads * z.sequence * z.sequence * z.batch;
  // Factors: 1 where a tensor is kept under the policy.
  const int64_t theirs = row.published != Recompute::full, their_core = row.published == Recompute::none;
  const int64_t ours = row.ours != Recompute::full, all_ours = row.ours == Recompute::none;
  return {
      // The residual stream. A block of ours recomputes by itself, so full recompute keeps its own input: two a layer.
      {"input of the attention norm",
       {2 * sbh, theirs != 0 ? kTokens : Split::never},  // table 2 keeps it whole under full recompute
       {2 * sbh, kTokens}},
      {"input of the feed-forward norm", {theirs * 2 * sbh, kTokens}, {2 * sbh, kTokens}},
      // We keep what the products read, gathered; they keep the chip's part and gather it again. Selective of ours
      // makes it again from the norm's input, as is all that is cheap.
      {"input of q, k, v", {theirs * 2 * sbh, kTokens}, {all_ours * 2 * sbh, Split::never}},
      {"input of the feed-forward", {theirs * 2 * sbh, kTokens}, {all_ours * 2 * sbh, Split::never}},
      {"q and k", {theirs * 4 * sbh, kHeads}, {ours * 4 * sbh, kHeads}},
      {"v", {theirs * 2 * sbh, kHeads}, {ours * 2 * sbh, kHeads}},
      // Our attention computes scores again, tile by tile, from one number per row: their log-sum-exp, in f32.
      {"softmax output", {their_core * 2 * scores, kHeads}, {}},
      {"mask of the softmax dropout", {their_core * scores, kHeads}, {}},
      {"output of the softmax dropout", {their_core * 2 * scores, kHeads}, {}},
      {"log-sum-exp of the scores", {}, {ours * 4 * tokens * z.heads, kHeads}},
      {"attention output", {theirs * 2 * sbh, kHeads}, {ours * 2 * sbh, kHeads}},
      {"input of the activation function", {theirs * 2 * inner, kHeads}, {ours * 2 * inner, kHeads}},
      // The gradient of the square reads relu(x), which is no longer x nor the square.
      {"ReLU before the square", {}, {all_ours * 2 * inner, kHeads}},
      {"output of the activation function", {theirs * 2 * inner, kHeads}, {all_ours * 2 * inner, kHeads}},
      {"masks of two dropouts", {theirs * 2 * sbh, kTokens}, {}},
      // Not counted in the paper, whose norms have two such numbers a row.
      {"1 / root mean square of two norms, f32", {}, {all_ours * 2 * 4 * tokens, kTokens}},
  };
}

recipe::Recipe recipe_of(const Row& row) {
  recipe::Layout layout;
  layout.tensor_parallel = row.chips;
  layout.sequence_parallel = row.sequence_parallel;
  recipe::Recipe recipe = dense_transformer(row.sizes, layout);
  recipe.train.recompute['A'] = recipe.train.recompute['E'] = level_of(row.ours);
  return recipe;
}

class ActivationsTest : public testing::TestWithParam<Row> {};

TEST_P(ActivationsTest, AreThePublishedTensorsButForTheNamedOnes) {
  const Row& row = GetParam();
  int64_t theirs = 0, ours = 0;
  std::string differences;
  for (const Tensor& each : tensors_of(row)) {
    const int64_t published = row.on_a_chip(each.published), planned = row.on_a_chip(each.ours);
    theirs += published;
    ours += planned;
    if (published != planned)
      differences += "\n  " + each.what + ": " + std::to_string(published) + " published, " + std::to_string(planned) +
                     " in our blocks";
  }
  EXPECT_EQ(theirs, published_formula(row)) << row.source << ": the list of tensors is not the formula";

  // The second layer: it begins with an input that a layer before it made, and ends with one that the next one keeps.
  const Kept layer =
      kept_bytes(recipe_of(row), [](const std::string& block) { return block == "block02" || block == "block03"; });
  EXPECT_EQ(layer.of_tokens, ours) << row.source << " is " << published_formula(row) << " bytes; ours should differ by"
                                   << differences;

  // 16-bit weights, which the published numbers count among the 18 bytes of a parameter; norms are whole on every chip.
  const int64_t norms = 2 * row.sizes.hidden;
  const int64_t weights = (row.sizes.parameters_of_layer() - norms) / row.chips + norms;
  EXPECT_EQ(layer.of_weights, row.ours == Recompute::none ? 2 * weights : 0) << "16-bit copies of a layer's weights";
}

INSTANTIATE_TEST_SUITE_P(Published, ActivationsTest, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row.param.name; });

// Section 4.3: besides the layers, the input of the final norm (2sbh) and of the output projection (2sbh). The dropout
// mask behind the embedding (sbh) we do not have. Logits die where the loss is: no activation here.
TEST(ActivationsTest, OfAWholeModelAreItsLayersAndFourSbh) {
  const Row row{"whole", "section 4.3: 4 sbh", Recompute::none, Recompute::none};
  int64_t layer = 0;
  for (const Tensor& each : tensors_of(row)) layer += row.on_a_chip(each.ours);
  const Kept all = kept_bytes(recipe_of(row), [](const std::string& block) { return block != "head"; });
  const int64_t root_mean_squares = 4 * row.sizes.sequence * row.sizes.batch;  // of the final norm, f32
  EXPECT_EQ(all.of_tokens, row.sizes.layers * layer + 4 * row.sizes.sbh() + root_mean_squares) << row.source;
}

}  // namespace
}  // namespace megacpp::published
