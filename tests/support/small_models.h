// SPDX-License-Identifier: Apache-2.0
// Models small enough for the reference evaluator that together use every block family and every option of each.
#pragma once

#include <string>
#include <vector>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::testing_support {

inline recipe::Model small_model(std::string name, std::string pattern) {
  recipe::Model model;
  model.name = std::move(name);
  model.depth = static_cast<int64_t>(pattern.size());
  model.pattern = std::move(pattern);
  model.hidden = 8;
  model.vocab = 11;
  model.init_std = 0.3;  // large enough that every part matters to the loss
  model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 4};
  model.config<blocks::FeedForward>() = {.intermediate = 12};
  model.config<blocks::Mamba>() = {.heads = 4, .head_dim = 4, .state = 3, .groups = 2, .chunk = 4};
  model.config<blocks::Recurrent>() = {.width = 8, .heads = 2};
  return model;
}

template <typename Change>
recipe::Model small_model(std::string name, std::string pattern, const Change& change) {
  recipe::Model model = small_model(std::move(name), std::move(pattern));
  change(model);
  return model;
}

inline recipe::Model with_experts(std::string name, blocks::RoutedBy routing, double capacity_factor) {
  return small_model(std::move(name), "E", [&](recipe::Model& m) {
    m.config<blocks::FeedForward>().experts = 4;
    m.config<blocks::FeedForward>().routing = routing;
    m.config<blocks::FeedForward>().capacity_factor = capacity_factor;
    m.config<blocks::FeedForward>().balance_loss = 0.1;
    m.config<blocks::FeedForward>().z_loss = 0.05;
  });
}

inline std::vector<recipe::Model> small_models() {
  using recipe::Model;
  std::vector<Model> models = {small_model("attention", "A"), small_model("feed_forward", "E"),
                               small_model("mamba", "M"), small_model("recurrent", "R"), small_model("hybrid", "AEMR")};
  models.push_back(small_model("qk_norm", "A", [](Model& m) { m.config<blocks::Attention>().qk_norm = true; }));
  models.push_back(small_model("no_rope", "A", [](Model& m) { m.config<blocks::Attention>().rope = false; }));
  models.push_back(small_model("part_of_yarn", "A", [](Model& m) {
    m.config<blocks::Attention>().rotary_dim = 2;
    m.config<blocks::Attention>().rope_scaling = blocks::RopeScaling::yarn;
    m.config<blocks::Attention>().rope_factor = 4;
    m.config<blocks::Attention>().rope_original_length = 8;
  }));
  models.push_back(small_model("norm_over_heads", "A", [](Model& m) {
    m.norm_plus_one = true;
    m.config<blocks::Attention>().qk_norm = true;
    m.config<blocks::Attention>().qk_norm_over = blocks::NormOver::heads;
  }));
  models.push_back(small_model("biases", "AE", [](Model& m) {
    m.config<blocks::Attention>().qkv_bias = m.config<blocks::Attention>().out_bias = true;
    m.config<blocks::FeedForward>().bias = true;
    m.config<blocks::FeedForward>().activation = blocks::ActivationFunction::geglu;
  }));
  models.push_back(small_model("caps_and_sinks", "AE", [](Model& m) {
    m.logits_softcap = 3;
    m.config<blocks::Attention>().softcap = 2;
    m.config<blocks::Attention>().sinks = true;
    m.config<blocks::FeedForward>().activation = blocks::ActivationFunction::gelu;
  }));
  models.push_back(small_model("norms_around", "AE", [](Model& m) {
    m.norm_place = recipe::NormPlace::both;
    m.residual_scale = 0.5;
    m.logits_divisor = 3;
  }));
  models.push_back(small_model("biased_experts", "E", [](Model& m) {
    m.config<blocks::FeedForward>() = {.activation = blocks::ActivationFunction::clamped_swiglu,
                                       .clamp_limit = 1,
                                       .bias = true,
                                       .intermediate = 12,
                                       .experts = 6,
                                       .routed_scale = 2.5,
                                       .expert_groups = 3,
                                       .top_groups = 2,
                                       .selection_bias = true,
                                       .capacity_factor = 0,
                                       .shared_intermediate = 6};
  }));
  models.push_back(small_model("window", "A", [](Model& m) { m.config<blocks::Attention>().window = 3; }));
  models.push_back(small_model("sparse", "A", [](Model& m) {
    m.config<blocks::Attention>().sparse_block = 2;
    m.config<blocks::Attention>().sparse_local = 1;
    m.config<blocks::Attention>().sparse_global = 1;
  }));
  models.push_back(
      small_model("documents", "AA", [](Model& m) { m.config<blocks::Attention>().document_mask = true; }));
  models.push_back(small_model("tied", "AE", [](Model& m) {
    m.tie_embeddings = true;
    m.embed_scale = 2.0;
    m.z_loss = 0.01;
  }));
  models.push_back(small_model(
      "relu2", "E", [](Model& m) { m.config<blocks::FeedForward>().activation = blocks::ActivationFunction::relu2; }));
  models.push_back(small_model("mamba_plain", "M", [](Model& m) {
    m.config<blocks::Mamba>().conv_bias = false;
    m.config<blocks::Mamba>().norm_per_group = false;
    m.config<blocks::Mamba>().dt_limit_low = 0.01;
    m.config<blocks::Mamba>().dt_limit_high = 0.05;
  }));
  models.push_back(with_experts("capacity", blocks::RoutedBy::tokens, 1.0));
  models.push_back(with_experts("dropless", blocks::RoutedBy::tokens, 0.0));
  models.push_back(with_experts("expert_choice", blocks::RoutedBy::experts, 1.0));
  Model biased = with_experts("sigmoid_bias_shared", blocks::RoutedBy::tokens, 1.25);
  biased.config<blocks::FeedForward>().scoring = blocks::Scoring::sigmoid;
  biased.config<blocks::FeedForward>().bias_rate = 0.01;
  biased.config<blocks::FeedForward>().shared_intermediate = 6;
  models.push_back(biased);
  Model over_model = with_experts("balance_over_model", blocks::RoutedBy::tokens, 1.25);
  over_model.pattern = "EE";
  over_model.depth = 2;
  over_model.config<blocks::FeedForward>().balance_over = blocks::BalanceOver::model;
  over_model.config<blocks::FeedForward>().renormalise = false;
  models.push_back(over_model);
  models.push_back(small_model("lora", "AEMR", [](Model& m) { m.lora = {.rank = 2, .alpha = 3}; }));
  Model adapted = biased;  // frozen, so that nothing steers its bias; adapters of every expert and of the router
  adapted.name = "lora_experts";
  adapted.lora = {.rank = 2, .alpha = 3, .targets = {"block*.w_*", "block*.router"}};
  models.push_back(adapted);
  return models;
}

}  // namespace megacpp::testing_support
