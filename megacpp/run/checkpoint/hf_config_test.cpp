// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "tests/support/errors.h"

namespace megacpp::checkpoint {
namespace {

constexpr const char* kLlama =
    R"({"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 8)";

HfModel import_text(const std::string& cls, const std::string& config) {
  return import_hf_config(cls, base::parse_json(config, base::Code::E1202, "test"));
}

base::Problem refusal(const std::string& cls, const std::string& config) {
  SCOPED_TRACE(config);
  return testing_support::problem_of(base::Code::E1202, [&] { import_text(cls, config); });
}

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests" / "golden" / "models" / (name + ".safetensors");
}

HfModel import_golden(const SafetensorsFile& file) {
  const base::Json meta = base::parse_json(file.metadata().at("meta"), base::Code::E1202, "golden meta");
  return import_hf_config(meta["cls"].get<std::string>(), meta["config"]);
}

class HfConfigGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HfConfigGoldenTest, EveryParameterIsMappedAndTheRoundTripIsIdentical) {
  const SafetensorsFile file(golden(GetParam()));
  const HfModel imported = import_golden(file);
  const TensorMap theirs = read_tensors(file, "param.");
  std::set<std::string> mapped;
  for (const NamePiece& piece : imported.names.pieces) mapped.insert(piece.theirs);
  for (const auto& [name, tensor] : theirs) EXPECT_TRUE(mapped.contains(name)) << name;
  EXPECT_EQ(mapped.size(), theirs.size());

  const TensorMap ours = import_tensors(imported.names, theirs);
  const TensorMap back = export_tensors(imported.names, ours);
  ASSERT_EQ(back.size(), theirs.size());
  size_t our_elements = 0;
  size_t their_elements = 0;
  for (const auto& [name, tensor] : ours) our_elements += tensor.data.size();
  for (const auto& [name, tensor] : theirs) {
    their_elements += tensor.data.size();
    EXPECT_EQ(back.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(back.at(name).data, tensor.data) << name;
  }
  EXPECT_EQ(our_elements, their_elements);
}

TEST_P(HfConfigGoldenTest, GradientsOfEveryParameterHaveItsLayout) {
  const SafetensorsFile file(golden(GetParam()));
  for (const NamePiece& piece : import_golden(file).names.pieces) {
    EXPECT_EQ(file.at("grad." + piece.theirs).shape, piece.their_shape) << piece.theirs;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, HfConfigGoldenTest,
                         ::testing::Values("llama_tiny", "mamba2_tiny", "mixtral_tiny", "nemotron_h_tiny",
                                           "rglru_block"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HfConfigTest, GoldenConfigsBecomeTheRightModels) {
  const recipe::Model mixtral = import_golden(SafetensorsFile(golden("mixtral_tiny"))).model;
  EXPECT_EQ(mixtral.pattern, "AE");
  EXPECT_EQ(mixtral.depth, 4);
  EXPECT_EQ(mixtral.config<blocks::Attention>().head_dim, 8);  // null in the config
  EXPECT_EQ(mixtral.config<blocks::Attention>().rope_theta, 1e6);
  EXPECT_EQ(mixtral.config<blocks::FeedForward>().experts, 4);
  EXPECT_EQ(mixtral.config<blocks::FeedForward>().capacity_factor, 0);
  EXPECT_EQ(mixtral.config<blocks::FeedForward>().balance_over, blocks::BalanceOver::model);
  EXPECT_EQ(mixtral.config<blocks::FeedForward>().balance_loss, 0.02);

  const recipe::Model mamba = import_golden(SafetensorsFile(golden("mamba2_tiny"))).model;
  EXPECT_FALSE(mamba.config<blocks::Mamba>().norm_per_group);
  EXPECT_EQ(mamba.config<blocks::Mamba>().chunk, 16);
  EXPECT_EQ(mamba.config<blocks::Mamba>().dt_limit_low, 0);
  EXPECT_TRUE(std::isinf(mamba.config<blocks::Mamba>().dt_limit_high));

  const recipe::Model nemotron = import_golden(SafetensorsFile(golden("nemotron_h_tiny"))).model;
  EXPECT_EQ(nemotron.pattern, "MEMAE");
  EXPECT_FALSE(nemotron.config<blocks::Attention>().rope);
  EXPECT_TRUE(nemotron.config<blocks::Mamba>().norm_per_group);
  EXPECT_EQ(nemotron.config<blocks::Mamba>().dt_limit_low, 1e-3);
  EXPECT_EQ(nemotron.config<blocks::FeedForward>().activation, blocks::ActivationFunction::relu2);

  const HfModel block = import_golden(SafetensorsFile(golden("rglru_block")));
  EXPECT_TRUE(block.lone_block);
  EXPECT_EQ(block.names.pieces.front().ours, "block00.R.linear_x.weight");
}

TEST(HfConfigTest, ImportTransposesAndSplitsFusedExperts) {
  const SafetensorsFile file(golden("mixtral_tiny"));
  const TensorMap theirs = read_tensors(file, "param.");
  const TensorMap ours = import_tensors(import_golden(file).names, theirs);
  const FloatTensor& fused = theirs.at("model.layers.1.mlp.experts.gate_up_proj");  // [4, 160, 64]
  const FloatTensor& gate = ours.at("block03.E.w_gate");                            // [4, 64, 80]
  const FloatTensor& up = ours.at("block03.E.w_up");
  ASSERT_EQ(gate.shape, (ir::Shape{4, 64, 80}));
  const size_t expert = 2, in = 5, out = 7;
  EXPECT_EQ(gate.data[(expert * 64 + in) * 80 + out], fused.data[(expert * 160 + out) * 64 + in]);
  EXPECT_EQ(up.data[(expert * 64 + in) * 80 + out], fused.data[(expert * 160 + 80 + out) * 64 + in]);
  EXPECT_EQ(ours.at("block02.A.wk").shape, (ir::Shape{64, 32}));
}

TEST(HfConfigTest, AGivenHeadWidthNeedsNoHeadsThatDivideTheHiddenSize) {
  const recipe::Model model =
      import_text("NemotronHForCausalLM",
                  R"({"vocab_size": 9, "hidden_size": 20, "layers_block_type": ["attention"], "num_attention_heads": 3,
                  "attention_head_dim": 8})")
          .model;
  EXPECT_EQ(model.config<blocks::Attention>().head_dim, 8);
}

TEST(HfConfigTest, AbsurdSizesAreRefusedBeforeNamesAreMade) {
  const std::string config = R"({"vocab_size": 9, "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 8, "num_hidden_layers": 1000000000})";
  testing_support::problem_of(base::Code::E1003, [&] { import_text("LlamaForCausalLM", config); });
}

TEST(HfConfigTest, DefaultsFillWhatAShortConfigLeavesOut) {
  const recipe::Model model = import_text("LlamaForCausalLM", std::string(kLlama) + "}").model;
  EXPECT_EQ(model.config<blocks::Attention>().kv_heads, 8);
  EXPECT_EQ(model.config<blocks::Attention>().head_dim, 8);
  EXPECT_EQ(model.config<blocks::Attention>().rope_theta, 10000);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_FALSE(model.tie_embeddings);
  EXPECT_EQ(import_text("LlamaForCausalLM", std::string(kLlama) + R"(, "rope_theta": 5e5})")
                .model.config<blocks::Attention>()
                .rope_theta,
            5e5);
}

TEST(HfConfigTest, TiedEmbeddingsHaveNoHead) {
  const HfModel tied = import_text("LlamaForCausalLM", std::string(kLlama) + R"(, "tie_word_embeddings": true})");
  for (const NamePiece& piece : tied.names.pieces) EXPECT_NE(piece.ours, "head.weight");
  EXPECT_EQ(tied.names.ignored, std::vector<std::string>{"lm_head.weight"});
}

TEST(HfConfigTest, SlidingWindowIsMapped) {
  const std::string config = std::string(kLlama) + R"(, "num_local_experts": 4, "sliding_window": 32})";
  EXPECT_EQ(import_text("MixtralForCausalLM", config).model.config<blocks::Attention>().window, 32);
}

TEST(HfConfigTest, HybridPatternLettersAreTranslated) {
  const std::string config =
      R"({"vocab_size": 97, "hidden_size": 64, "hybrid_override_pattern": "M-M*-", "num_hidden_layers": 5,
    "num_attention_heads": 8, "num_key_value_heads": 2, "attention_head_dim": 16, "intermediate_size": 96,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16, "n_groups": 2, "time_step_limit": [0.0, {"__float__": "Infinity"}]})";
  const recipe::Model model = import_text("NemotronHForCausalLM", config).model;
  EXPECT_EQ(model.pattern, "MEMAE");
  EXPECT_EQ(model.config<blocks::Attention>().head_dim, 16);
  EXPECT_TRUE(std::isinf(model.config<blocks::Mamba>().dt_limit_high));
}

TEST(HfConfigTest, UnsupportedOptionsAreRefusedByName) {
  const auto field = [](const std::string& extra) {
    return refusal("LlamaForCausalLM", std::string(kLlama) + ", " + extra + "}").where;
  };
  EXPECT_EQ(field(R"("attention_bias": true)"), "LlamaForCausalLM attention_bias");
  EXPECT_EQ(field(R"("mlp_bias": true)"), "LlamaForCausalLM mlp_bias");
  EXPECT_EQ(field(R"("hidden_act": "gelu")"), "LlamaForCausalLM hidden_act");
  EXPECT_EQ(field(R"("rope_scaling": {"type": "linear"})"), "LlamaForCausalLM rope_scaling type");
  EXPECT_EQ(field(R"("rope_parameters": {"rope_type": "llama3"})"), "LlamaForCausalLM rope_parameters rope_type");
  EXPECT_EQ(field(R"("rope_parameters": {"factor": 8.0})"), "LlamaForCausalLM rope_parameters factor");
  EXPECT_EQ(field(R"("partial_rotary_factor": 0.5)"), "LlamaForCausalLM partial_rotary_factor");
  EXPECT_EQ(field(R"("quantization_config": {"bits": 4})"), "LlamaForCausalLM quantization_config");
  EXPECT_EQ(field(R"("head_dim": "wide")"), "LlamaForCausalLM head_dim");
  EXPECT_EQ(refusal("LlamaForCausalLM", R"({"vocab_size": 97})").where, "LlamaForCausalLM hidden_size");
  EXPECT_EQ(
      refusal("NemotronHForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "layers_block_type": ["mamba", "moe"]})")
          .where,
      "NemotronHForCausalLM layers_block_type");
  EXPECT_EQ(
      refusal("Mamba2ForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 3})")
          .where,
      "Mamba2ForCausalLM num_heads");
}

TEST(HfConfigTest, UnknownClassesGetTheNearestName) {
  EXPECT_EQ(refusal("LamaForCausalLM", "{}").next, "did you mean 'LlamaForCausalLM'?");
  EXPECT_EQ(refusal("BertModel", "[]").where, "model class");
  EXPECT_EQ(refusal("LlamaForCausalLM", "[]").got, "a list");
}

TEST(HfConfigTest, SizesThatDoNotDivideAreRefusedLikeARecipes) {
  try {
    import_text("LlamaForCausalLM", std::string(kLlama) + R"(, "num_key_value_heads": 3})");
    ADD_FAILURE() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1005);
  }
}

}  // namespace
}  // namespace megacpp::checkpoint
