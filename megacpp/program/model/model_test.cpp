// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/errors.h"
#include "tests/support/model_inputs.h"
#include "tests/support/small_models.h"

namespace megacpp::model {
namespace {

using ops::Rounding;
using testing_support::small_model;

constexpr Batch kBatch{.sequences = 2, .length = 6, .compute = ir::DType::f32};

std::vector<std::string> output_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

TEST(ModelTest, EverySmallModelIsLegalInBothPrecisions) {
  for (const recipe::Model& config : testing_support::small_models())
    for (const ir::DType compute : {ir::DType::f32, ir::DType::bf16}) {
      const ForwardModel forward = build_forward(config, {.sequences = 2, .length = 6, .compute = compute}, {}, true);
      EXPECT_NO_THROW(ops::verify(forward.graph, ops::Form::built)) << config.name;
      EXPECT_EQ(forward.graph.type(forward.loss), (ir::TensorType{ir::DType::f32, {}})) << config.name;
    }
}

TEST(ModelTest, ParametersDoNotDependOnTheBatch) {
  for (const recipe::Model& config : testing_support::small_models()) {
    const std::vector<blocks::Parameter> alone = parameters_of(config),
                                         built = build_forward(config, kBatch).parameters;
    ASSERT_EQ(alone.size(), built.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(alone[i].name, built[i].name);
      EXPECT_EQ(alone[i].shape, built[i].shape);
    }
  }
}

TEST(ModelTest, NormsStandWhereTheRecipePutsThem) {
  const auto norms = [](recipe::NormPlace place) {
    recipe::Model config = small_model("hybrid", "A");
    config.depth = 1;
    config.norm_place = place;
    std::vector<std::string> names;
    for (const blocks::Parameter& parameter : parameters_of(config))
      if (parameter.kind == blocks::ParameterKind::norm) names.push_back(parameter.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(norms(recipe::NormPlace::before), (Names{"block00.A.norm.weight", "final_norm.weight"}));
  EXPECT_EQ(norms(recipe::NormPlace::after), (Names{"block00.A.post_norm.weight", "final_norm.weight"}));
  EXPECT_EQ(norms(recipe::NormPlace::both),
            (Names{"block00.A.norm.weight", "block00.A.post_norm.weight", "final_norm.weight"}));
}

TEST(ModelTest, GainsOfOnePlusStartAtZero) {
  recipe::Model config = small_model("hybrid", "A");
  config.norm_plus_one = true;
  config.config<blocks::Attention>().qk_norm = true;
  for (const blocks::Parameter& parameter : parameters_of(config)) {
    if (parameter.kind != blocks::ParameterKind::norm) continue;
    EXPECT_EQ(parameter.init.a, 0) << parameter.name;
  }
}

TEST(ModelTest, BlocksFollowThePatternAndAreScopedByFamily) {
  recipe::Model config = small_model("hybrid", "AEMR");
  config.depth = 6;  // the pattern repeats
  const ForwardModel forward = build_forward(config, kBatch);
  std::vector<std::string> norms;
  for (const blocks::Parameter& parameter : forward.parameters)
    if (parameter.name.ends_with(".norm.weight") && parameter.name.starts_with("block"))
      norms.push_back(parameter.name);
  EXPECT_EQ(norms,
            (std::vector<std::string>{"block00.A.norm.weight", "block01.E.norm.weight", "block02.M.norm.weight",
                                      "block03.R.norm.weight", "block04.A.norm.weight", "block05.E.norm.weight"}));
}

TEST(ModelTest, TiedEmbeddingsShareOneTable) {
  recipe::Model config = small_model("tied", "E");
  const auto has_head = [](const ForwardModel& forward) {
    return std::any_of(forward.parameters.begin(), forward.parameters.end(),
                       [](const blocks::Parameter& p) { return p.name == "head.weight"; });
  };
  EXPECT_TRUE(has_head(build_forward(config, kBatch)));
  config.tie_embeddings = true;
  EXPECT_FALSE(has_head(build_forward(config, kBatch)));
}

TEST(ModelTest, OutputsAreWhatTheRunReports) {
  EXPECT_EQ(output_names(build_forward(small_model("dense", "AE"), kBatch).graph),
            (std::vector<std::string>{"loss", "ce"}));
  const recipe::Model experts = testing_support::with_experts("experts", blocks::RoutedBy::tokens, 1.0);
  const ForwardModel forward = build_forward(experts, kBatch, {}, true);
  EXPECT_EQ(output_names(forward.graph),
            (std::vector<std::string>{"aux", "dropped", "loss", "ce", "logits", "router_logits.0"}));
  ASSERT_EQ(forward.expert_loads.size(), 1U);
  EXPECT_EQ(forward.expert_loads[0].block, "block00");
}

TEST(ModelTest, DecodingGivesTheLogitsOfItsTokensAndTheStateBehindThem) {
  const recipe::Model config = small_model("dense", "AE");
  const ForwardModel decoding = build_decoding(config, {.sequences = 2, .length = 6, .tokens = 3, .step_tokens = 3});
  EXPECT_EQ(decoding.graph.find_output("logits"), decoding.loss);
  EXPECT_EQ(decoding.graph.type(decoding.loss).shape, (ir::Shape{2, 3, config.vocab}));
  ASSERT_FALSE(decoding.state.empty()) << "keys and values";
  for (const blocks::StatePort& port : decoding.state) {
    EXPECT_TRUE(decoding.graph.find_input(port.name)) << port.name;
    EXPECT_TRUE(decoding.graph.find_output(port.name)) << port.name;
  }
}

// A model without blocks whose weights are zero guesses every token alike.
TEST(ModelTest, LossOfAnUntaughtModelIsTheLogarithmOfTheVocabularyWhateverIsMasked) {
  const recipe::Model config = small_model("flat", "E");
  const ForwardModel forward = build_forward(config, kBatch);
  auto inputs = testing_support::model_inputs(forward.graph, forward.parameters, config.vocab);
  for (double& element : inputs.at("head.weight").data) element = 0;
  EXPECT_NEAR(ops::evaluate(forward.graph, inputs, Rounding::none).at("loss")[0], std::log(11.0), 1e-12);
  for (double& label : inputs.at("batch.labels").data) label = -1;
  EXPECT_EQ(ops::evaluate(forward.graph, inputs, Rounding::none).at("loss")[0], 0.0);
}

TEST(ModelTest, AdaptersThatStartAtZeroChangeNothing) {
  for (recipe::Model config : testing_support::small_models()) {
    config.lora = {};
    const ForwardModel base = build_forward(config, kBatch, {}, true);
    config.lora = {.rank = 3};
    const ForwardModel adapted = build_forward(config, kBatch, {}, true);
    auto inputs = testing_support::model_inputs(adapted.graph, adapted.parameters, config.vocab);
    size_t adapters = 0;
    for (const blocks::Parameter& parameter : adapted.parameters) {
      EXPECT_EQ(parameter.trainable, blocks::is_adapter(parameter.name)) << parameter.name;
      EXPECT_EQ(parameter.frozen, !parameter.trainable) << parameter.name;
      if (parameter.trainable) ++adapters;
      if (parameter.name.ends_with(blocks::kLoraB))
        for (double& element : inputs.at(parameter.name).data) element = 0;
    }
    EXPECT_EQ(adapted.parameters.size() - adapters, base.parameters.size()) << config.name;
    EXPECT_GE(adapters, 4u) << config.name;
    const auto with = ops::evaluate(adapted.graph, inputs);
    std::erase_if(inputs, [](const auto& input) { return blocks::is_adapter(input.first); });
    for (const auto& [name, tensor] : ops::evaluate(base.graph, inputs))
      EXPECT_EQ(with.at(name).data, tensor.data) << config.name << " " << name;
  }
}

TEST(ModelTest, TargetsThatNameNoMatrixOfABlockAreRefused) {
  recipe::Model config = small_model("adapted", "AE");
  for (const char* target : {"block*.wz", "embed.weight", "head.weight", "block*.norm.weight", "block00.E.w_up"}) {
    config.lora = {.rank = 2, .targets = {"block*.wq", target}};
    const base::Problem problem =
        testing_support::problem_of(base::Code::E1003, [&] { build_forward(config, kBatch); });
    EXPECT_EQ(problem.where, "lora.targets");
    EXPECT_NE(problem.got.find(target), std::string::npos) << problem.got;
  }
}

TEST(ModelTest, FrozenExpertsSteerNoBias) {
  recipe::Model config = testing_support::with_experts("biased", blocks::RoutedBy::tokens, 1.0);
  config.config<blocks::FeedForward>().bias_rate = 0.1;
  EXPECT_TRUE(build_forward(config, kBatch).expert_loads[0].steers_bias());
  config.lora.rank = 2;
  EXPECT_FALSE(build_forward(config, kBatch).expert_loads[0].steers_bias());
}

TEST(ModelTest, NoTokenSeesALaterOne) {
  for (const recipe::Model& config : testing_support::small_models()) {
    // An expert that chooses looks at the whole sequence: it is not causal by design.
    if (config.config<blocks::FeedForward>().routing == blocks::RoutedBy::experts) continue;
    const ForwardModel forward = build_forward(config, kBatch, {}, true);
    auto inputs = testing_support::model_inputs(forward.graph, forward.parameters, config.vocab);
    const ops::Tensor before = ops::evaluate(forward.graph, inputs, Rounding::none).at("logits");
    ops::Tensor& ids = inputs.at("batch.ids");
    ids[4] = static_cast<double>((static_cast<int64_t>(ids[4]) + 1) % config.vocab);  // token 4 of sequence 0
    const ops::Tensor after = ops::evaluate(forward.graph, inputs, Rounding::none).at("logits");
    bool changed = false;
    for (int64_t i = 0; i < before.elements(); ++i) {
      const int64_t token = i / config.vocab;
      if (token == 4 || token == 5) {
        changed = changed || before[i] != after[i];
      } else {
        EXPECT_NEAR(before[i], after[i], 1e-12) << config.name << " token " << token;
      }
    }
    EXPECT_TRUE(changed) << config.name;
  }
}

TEST(ModelTest, DocumentsDoNotSeeEachOther) {
  for (const char* pattern : {"A", "M", "R"}) {
    recipe::Model config = small_model("documents", pattern);
    config.config<blocks::Attention>().document_mask = true;
    config.config<blocks::Mamba>().document_mask = true;
    config.config<blocks::Recurrent>().document_mask = true;
    const ForwardModel forward = build_forward(config, kBatch, {}, true);
    auto inputs = testing_support::model_inputs(forward.graph, forward.parameters, config.vocab);
    const ops::Tensor before = ops::evaluate(forward.graph, inputs, Rounding::none).at("logits");
    ops::Tensor& ids = inputs.at("batch.ids");
    ids[0] = static_cast<double>((static_cast<int64_t>(ids[0]) + 1) % config.vocab);
    const ops::Tensor after = ops::evaluate(forward.graph, inputs, Rounding::none).at("logits");
    EXPECT_NE(before[2 * config.vocab], after[2 * config.vocab]) << pattern;
    for (int64_t i = 3 * config.vocab; i < 6 * config.vocab; ++i)
      EXPECT_EQ(before[i], after[i]) << pattern << ": second document";
  }
}

}  // namespace
}  // namespace megacpp::model
