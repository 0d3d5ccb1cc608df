// SPDX-License-Identifier: Apache-2.0
// Fields that several Hugging Face classes share, each for both directions. Settings of a family that a class says once
// are read into a copy and stored; written is the copy that the class took from the model.
#pragma once

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_codec.h"

namespace megacpp::checkpoint {

struct LanguageDefaults {
  std::string_view eps_field = "rms_norm_eps";
  double eps = 1e-6;
  bool tie = false;
};
/// What every class with a vocabulary has.
void language_model(HfCodec& io, recipe::Model& model, const LanguageDefaults& otherwise);

/// Layers of so many blocks each.
void layers(HfCodec& io, recipe::Model& model, const char* blocks);

struct HeadDefaults {
  int64_t kv_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;  // 0: hidden / heads
};
/// Heads and their width, where the config does not mention them as the class has it.
void heads(HfCodec& io, blocks::Attention& a, const HeadDefaults& otherwise = {});
int64_t hidden_per_head(const HfFields& fields);

/// A flag that says of q, k, v and o at once whether they have biases.
void attention_bias(HfCodec& io, blocks::Attention& a, bool otherwise = false);

/// "sliding_window", null where there is none; `otherwise` where the config does not mention it.
void window(HfCodec& io, blocks::Attention& a, int64_t otherwise);

/// SiLU as the function between the matrices.
void gated_silu(HfCodec& io, blocks::FeedForward& e, std::string_view field = "hidden_act");

/// The tanh form of GELU by one of the names it has.
void gated_gelu(HfCodec& io, blocks::FeedForward& e, std::string_view field);

/// Experts that tokens choose, none dropped. The loss has the balance of all blocks together.
void routed_by_tokens(blocks::FeedForward& e);
/// The weight of that balance, which the class adds where it is asked for router logits.
void balance_when_asked(HfCodec& io, blocks::FeedForward& e);

/// JSON has no word for infinity; this is the library's own spelling.
void time_step_limit(HfCodec& io, blocks::Mamba& m);
/// The fields Mamba2 and NemotronH share.
void mamba_mixer(HfCodec& io, blocks::Mamba& m);
/// Mamba as Bamba and Granite's hybrids have it: "mamba_n_heads", one norm over all groups.
void bamba_mixer(HfCodec& io, const recipe::Model& model, blocks::Mamba& m);

}  // namespace megacpp::checkpoint
