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
  TensorMap theirs = read_tensors(file, "param.");
  std::set<std::string> mapped;
  for (const NamePiece& piece : imported.names.pieces) {
    mapped.insert(piece.theirs);
    if (!piece.is_trained) theirs[piece.theirs] = read_tensors(file, "buffer.").at(piece.theirs);
  }
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
  for (const NamePiece& piece : trained(import_golden(file).names).pieces) {
    EXPECT_EQ(file.at("grad." + piece.theirs).shape, piece.their_shape) << piece.theirs;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, HfConfigGoldenTest,
                         ::testing::Values("bamba", "gemma2", "gemma3", "gpt_oss", "granite_hybrid", "llama3_rope",
                                           "llama_tiny", "llama_yarn", "mamba2_tiny", "mistral_window", "mixtral_tiny",
                                           "nemotron_h_moe", "nemotron_h_tiny", "olmo2", "qwen2", "qwen3", "qwen3_moe",
                                           "recurrent_gemma", "rglru_block"),
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
  EXPECT_EQ(field(R"("hidden_act": "gelu")"), "LlamaForCausalLM hidden_act");
  EXPECT_EQ(field(R"("rope_scaling": {"type": "dynamic"})"), "LlamaForCausalLM rope_scaling type");
  EXPECT_EQ(field(R"("rope_parameters": {"rope_type": "longrope"})"), "LlamaForCausalLM rope_parameters rope_type");
  EXPECT_EQ(field(R"("rope_scaling": {"type": "linear"})"), "LlamaForCausalLM rope_scaling factor");
  EXPECT_EQ(field(R"("max_position_embeddings": 64, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})"),
            "LlamaForCausalLM rope_scaling low_freq_factor");
  EXPECT_EQ(field(R"("rope_parameters": {"rope_type": "linear", "factor": 2.0, "beta_fast": 8})"),
            "LlamaForCausalLM rope_parameters beta_fast");
  EXPECT_EQ(field(R"("rope_parameters": {"factor": 8.0})"), "LlamaForCausalLM rope_parameters factor");
  EXPECT_EQ(field(R"("partial_rotary_factor": 0.5)"), "LlamaForCausalLM partial_rotary_factor");
  EXPECT_EQ(field(R"("quantization_config": {"bits": 4})"), "LlamaForCausalLM quantization_config");
  EXPECT_EQ(field(R"("head_dim": "wide")"), "LlamaForCausalLM head_dim");
  EXPECT_EQ(refusal("LlamaForCausalLM", R"({"vocab_size": 97})").where, "LlamaForCausalLM hidden_size");
  EXPECT_EQ(
      refusal("NemotronHForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "layers_block_type": ["mamba", "conv"]})")
          .where,
      "NemotronHForCausalLM layers_block_type");
  EXPECT_EQ(
      refusal("Mamba2ForCausalLM", R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 3})")
          .where,
      "Mamba2ForCausalLM num_heads");
}

blocks::Attention llama_attention(const std::string& extra) {
  return import_text("LlamaForCausalLM", std::string(kLlama) + ", " + extra + "}").model.config<blocks::Attention>();
}

TEST(HfConfigTest, BiasesAreThoseOfTheClass) {
  const blocks::Attention llama = llama_attention(R"("attention_bias": true)");
  EXPECT_TRUE(llama.qkv_bias && llama.out_bias);
  const recipe::Model qwen =
      import_text("Qwen2ForCausalLM", std::string(kLlama) + R"(, "num_key_value_heads": null})").model;
  EXPECT_TRUE(qwen.config<blocks::Attention>().qkv_bias);
  EXPECT_FALSE(qwen.config<blocks::Attention>().out_bias);
  EXPECT_TRUE(import_text("LlamaForCausalLM", std::string(kLlama) + R"(, "mlp_bias": true})")
                  .model.config<blocks::FeedForward>()
                  .bias);
}

TEST(HfConfigTest, RopeIsReadAsOlderAndNewerVersionsSpellIt) {
  const char* const kScaling =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 8192, "rope_theta": 5e5})";
  const blocks::Attention newer = llama_attention(R"("rope_parameters": )" + std::string(kScaling));
  const blocks::Attention older = llama_attention(R"("rope_theta": 5e5, "rope_scaling": )" + std::string(kScaling));
  EXPECT_EQ(newer, older);
  EXPECT_EQ(newer.rope_scaling, blocks::RopeScaling::llama3);
  EXPECT_EQ(newer.rope_theta, 5e5);
  EXPECT_EQ(newer.rope_original_length, 8192);
  EXPECT_EQ(newer.rope_fast_turns, 0) << "the usual number";
}

TEST(HfConfigTest, YarnTakesItsFactorFromTheLengthsAndItsAmplitudeFromTheScales) {
  const blocks::Attention a =
      llama_attention(R"("max_position_embeddings": 256, "rope_parameters": {"rope_type": "yarn",
      "original_max_position_embeddings": 64, "mscale": 1.0, "mscale_all_dim": 1.0, "truncate": false})");
  EXPECT_EQ(a.rope_factor, 4);
  EXPECT_EQ(a.rope_amplitude, 1);
  EXPECT_FALSE(a.rope_whole_channels);
}

TEST(HfConfigTest, LayersOfTwoKindsHaveTwoLetters) {
  const recipe::Model gemma = import_golden(SafetensorsFile(golden("gemma3"))).model;
  EXPECT_EQ(gemma.pattern, "LEAE");
  EXPECT_EQ(gemma.letters.at('L').settings.at("attention.rope_theta"), "10000");
  EXPECT_EQ(gemma.config<blocks::Attention>().rope_theta, 1e6);
  EXPECT_EQ(gemma.config<blocks::Attention>().window, 0);
  const std::string layers = R"(, "num_key_value_heads": 2, "use_sliding_window": true, "max_window_layers": 1})";
  EXPECT_EQ(import_text("Qwen2ForCausalLM", std::string(kLlama) + layers).model.pattern, "AELE");
  const std::string dense = R"(, "mlp_only_layers": [1]})";
  EXPECT_EQ(import_text("Qwen3MoeForCausalLM", std::string(kLlama) + dense).model.pattern, "AEAD");
}

TEST(HfConfigTest, WhatAConfigDoesNotMentionIsAsInTheClass) {
  const auto window = [](const std::string& extra) {
    return import_text("MistralForCausalLM", std::string(kLlama) + extra + "}")
        .model.config<blocks::Attention>()
        .window;
  };
  EXPECT_EQ(window(""), 4096);
  EXPECT_EQ(window(R"(, "sliding_window": null)"), 0);
  const recipe::Model gemma = import_text("Gemma2ForCausalLM", std::string(kLlama) + "}").model;
  EXPECT_EQ(gemma.logits_softcap, 30);
  EXPECT_EQ(gemma.config<blocks::Attention>().softcap, 50);
  EXPECT_EQ(gemma.config<blocks::Attention>().head_dim, 256);
  EXPECT_EQ(import_text("Gemma2ForCausalLM", std::string(kLlama) + R"(, "final_logit_softcapping": null})")
                .model.logits_softcap,
            0);
}

TEST(HfConfigTest, UnknownClassesGetTheNearestName) {
  EXPECT_EQ(refusal("LamaForCausalLM", "{}").next, "did you mean 'LlamaForCausalLM'?");
  EXPECT_EQ(refusal("BertModel", "[]").where, "model class");
  EXPECT_EQ(refusal("LlamaForCausalLM", "[]").got, "a list");
}

TEST(HfConfigTest, TheClassIsNamedOrFollowsFromTheType) {
  const auto class_of = [](const char* text) { return hf_class_of(base::parse_json(text, base::Code::E1202, "test")); };
  EXPECT_EQ(class_of(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"})"), "Qwen3ForCausalLM");
  EXPECT_EQ(class_of(R"({"architectures": null, "model_type": "gpt_oss"})"), "GptOssForCausalLM");
  const auto refused = [&](const char* text) {
    return testing_support::problem_of(base::Code::E1202, [&] { class_of(text); }).where;
  };
  EXPECT_EQ(refused(R"({"architectures": ["LlamaForCausalLM"], "model_type": "mistral"})"), "config.json model_type");
  EXPECT_EQ(refused(R"({"model_type": "bert"})"), "config.json model_type");
  EXPECT_EQ(refused("{}"), "config.json architectures");
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
