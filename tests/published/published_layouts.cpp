// SPDX-License-Identifier: Apache-2.0
#include "tests/published/published_layouts.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/parse.h"

namespace megacpp::published {
namespace {

constexpr const char* kLlama7b =
    "pattern: AE, hidden: 4096, vocab: 32000, attention: {heads: 32, kv_heads: 32, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 11008}";
constexpr const char* kLlama8b =
    "pattern: AE, hidden: 4096, vocab: 128256, attention: {heads: 32, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336}";
constexpr const char* kLlama1b =  // of 3.2, with one table for embedding and head
    "pattern: AE, hidden: 2048, vocab: 128256, tie_embeddings: true, "
    "attention: {heads: 32, kv_heads: 8, head_dim: 64}, feed_forward: {activation: swiglu, intermediate: 8192}";
constexpr const char* kLlama70b =
    "pattern: AE, hidden: 8192, vocab: 128256, attention: {heads: 64, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 28672}";
constexpr const char* kLlama405b =
    "pattern: AE, hidden: 16384, vocab: 128256, attention: {heads: 128, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 53248}";
constexpr const char* kMixtral =
    "pattern: AE, hidden: 4096, vocab: 32000, attention: {heads: 32, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336, experts: 8, top_k: 2, capacity_factor: 1.25}";
constexpr const char* kMixtral8x22b =
    "pattern: AE, hidden: 6144, vocab: 32768, attention: {heads: 48, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 16384, experts: 8, top_k: 2, capacity_factor: 1.25}";
constexpr const char* kQwen3Of30b =
    "pattern: AE, hidden: 2048, vocab: 151936, attention: {heads: 32, kv_heads: 4, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 768, experts: 128, top_k: 8, capacity_factor: 1.25}";
constexpr const char* kQwen3Of235b =
    "pattern: AE, hidden: 4096, vocab: 151936, attention: {heads: 64, kv_heads: 4, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 1536, experts: 128, top_k: 8, capacity_factor: 1.25}";
// With plain attention: latent keys and values are no block of ours.
constexpr const char* kDeepseekLike =
    "pattern: AE, hidden: 2048, vocab: 102400, attention: {heads: 16, kv_heads: 16, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 1408, experts: 64, top_k: 6, capacity_factor: 1.25, "
    "shared_intermediate: 2816}";
constexpr const char* kDeepseekV2Like =
    "pattern: AE, hidden: 5120, vocab: 102400, attention: {heads: 128, kv_heads: 128, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 1536, experts: 160, top_k: 6, capacity_factor: 1.25, "
    "shared_intermediate: 3072}";
constexpr const char* kDeepseekV3Like =
    "pattern: AE, hidden: 7168, vocab: 129280, attention: {heads: 128, kv_heads: 128, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 2048, experts: 256, top_k: 8, capacity_factor: 1.25, "
    "shared_intermediate: 2048}";
constexpr const char* kJambaLike =  // 49 billion parameters with 64 blocks
    "pattern: MDMEMDAE, hidden: 4096, vocab: 65536, "
    "attention: {heads: 32, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 128, head_dim: 64, state: 16, groups: 8, chunk: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336, experts: 16, top_k: 2, capacity_factor: 1.25}, "
    "letters: {D: {family: E, feed_forward: {experts: 0}}}";
constexpr const char* kNemotronH8b =
    "pattern: MEMEMAE, hidden: 4096, vocab: 131072, "
    "attention: {heads: 32, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 128, head_dim: 64, state: 128, groups: 8, chunk: 128}, "
    "feed_forward: {activation: relu2, intermediate: 21504}";
constexpr const char* kNemotronH47b =
    "pattern: MEMEMAE, hidden: 8192, vocab: 131072, "
    "attention: {heads: 64, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 256, head_dim: 64, state: 256, groups: 8, chunk: 128}, "
    "feed_forward: {activation: relu2, intermediate: 30720}";
constexpr const char* kNemotronH56b =
    "pattern: MEMEMAE, hidden: 8192, vocab: 131072, "
    "attention: {heads: 64, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 256, head_dim: 64, state: 256, groups: 8, chunk: 128}, "
    "feed_forward: {activation: relu2, intermediate: 32768}";
constexpr const char* kNemotron3Nano =
    "pattern: MEMEMAE, hidden: 2688, vocab: 131072, "
    "attention: {heads: 32, kv_heads: 2, head_dim: 128, rope: false}, "
    "mamba: {heads: 64, head_dim: 64, state: 128, groups: 8, chunk: 128}, "
    "feed_forward: {activation: relu2, intermediate: 1856, experts: 128, top_k: 6, capacity_factor: 1.25, "
    "shared_intermediate: 3712}";

const PublishedLayout kLayouts[] = {
    {"llama2_7b", "index", "h100:8", kLlama7b, 2, 4, 4096, "{tensor_parallel: 2, data_parallel: 4}"},
    {"llama3_8b", "index", "h100:8", kLlama8b, 2, 4, 8192, "{tensor_parallel: 2, data_parallel: 4}"},
    {"llama3_8b_16k", "index", "h100:8", kLlama8b, 2, 2, 16384,
     "{tensor_parallel: 2, context_parallel: 2, data_parallel: 2}"},
    {"llama3_8b_64k", "index", "h100:16", kLlama8b, 2, 2, 65536,
     "{tensor_parallel: 2, context_parallel: 4, data_parallel: 2}"},
    {"llama3_70b", "index", "h100:64", kLlama70b, 4, 2, 8192,
     "{tensor_parallel: 8, pipeline_parallel: 4, data_parallel: 2}", 4},
    {"llama3_70b_16k", "index", "h100:128", kLlama70b, 4, 2, 16384,
     "{tensor_parallel: 8, pipeline_parallel: 4, context_parallel: 2, data_parallel: 2}", 4},
    {"llama3_70b_sft", "index", "h100:32", kLlama70b, 4, 2, 8192,
     "{tensor_parallel: 4, pipeline_parallel: 4, data_parallel: 2}", 4},
    {"llama31_405b", "index", "h100:256", kLlama405b, 16, 2, 8192,
     "{tensor_parallel: 8, pipeline_parallel: 16, data_parallel: 2}", 16},
    {"llama3_70b_64k", "index", "h100:256", kLlama70b, 4, 2, 65536,
     "{tensor_parallel: 8, pipeline_parallel: 4, context_parallel: 4, data_parallel: 2}", 4},
    {"llama31_70b_v6e_256", "maxtext", "v6e:16x16", kLlama70b, 4, 256, 8192, "{data_parallel: 256, zero: 3}", 5},
    {"fsdp_64", "usual", "h100:64", kLlama7b, 2, 128, 4096, "{data_parallel: 64, zero: 3}"},
    {"tied_fsdp_16", "usual", "v6e:4x4", kLlama1b, 2, 32, 4096, "{data_parallel: 16, zero: 3}"},
    {"tied_fsdp_4_tp_4", "usual", "v6e:4x4", kLlama1b, 2, 8, 4096, "{data_parallel: 4, tensor_parallel: 4, zero: 3}"},
    {"tied_tp_2_pp_2", "usual", "h100:8", kLlama1b, 4, 2, 4096,
     "{tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2}", 2},
    {"fsdp_64_few_tokens", "usual", "h100:64", kLlama70b, 4, 64, 1024, "{data_parallel: 64, zero: 3}"},
    {"fsdp_32_tp_8", "titan", "h100:256", kLlama70b, 4, 32, 8192, "{data_parallel: 32, tensor_parallel: 8, zero: 3}",
     8},
    {"mixtral_8x7b", "megatron", "h100:64", kMixtral, 4, 16, 4096,
     "{expert_parallel: 8, pipeline_parallel: 4, data_parallel: 2}", 4},
    {"mixtral_8x7b_interleaved", "nemo", "h100:64", kMixtral, 8, 16, 4096,
     "{expert_parallel: 8, pipeline_parallel: 4, data_parallel: 2, schedule: interleaved, virtual_stages: 2}", 4},
    {"mixtral_8x7b_16k", "nemo", "h100:32", kMixtral, 4, 1, 16384,
     "{tensor_parallel: 4, pipeline_parallel: 2, context_parallel: 4}", 2},
    {"mixtral_8x22b_64k", "nemo", "h100:256", kMixtral8x22b, 4, 2, 65536,
     "{tensor_parallel: 4, pipeline_parallel: 4, context_parallel: 8, expert_parallel: 2}", 4},
    {"mixtral_8x7b_v6e_256", "maxtext", "v6e:16x16", kMixtral, 2, 256, 4096, "{data_parallel: 256, zero: 3}", 12},
    {"mixtral_8x22b_v6e_256", "maxtext", "v6e:16x16", kMixtral8x22b, 2, 256, 4096,
     "{expert_parallel: 4, data_parallel: 64, zero: 3}", 8},
    {"mixtral_ep_8_fsdp_8", "usual", "h100:64", kMixtral, 2, 64, 4096,
     "{expert_parallel: 8, data_parallel: 8, zero: 3}"},
    {"mixtral_ep_8_tp_2", "usual", "h100:32", kMixtral, 2, 16, 4096,
     "{expert_parallel: 8, tensor_parallel: 2, data_parallel: 2}"},
    {"qwen3_30b_a3b", "bridge", "h100:16", kQwen3Of30b, 2, 16, 4096, "{expert_parallel: 16}", 64},
    {"qwen3_235b_a22b", "bridge", "h100:256", kQwen3Of235b, 16, 2, 4096,
     "{tensor_parallel: 4, pipeline_parallel: 16, context_parallel: 2, expert_parallel: 2}", 16},
    {"experts_over_all", "automodel", "h100:64", kDeepseekLike, 2, 128, 4096, "{expert_parallel: 64, zero: 3}"},
    {"deepseek_v2_lite", "bridge", "h100:8", kDeepseekLike, 2, 8, 4096, "{expert_parallel: 8}", 64},
    {"deepseek_16b", "titan", "h100:64", kDeepseekLike, 2, 256, 4096,
     "{expert_parallel: 8, data_parallel: 8, zero: 3}"},
    {"deepseek_v2", "bridge", "h100:128", kDeepseekV2Like, 4, 32, 4096, "{expert_parallel: 32, pipeline_parallel: 4}",
     4},
    {"deepseek_v3_256", "bridge", "h100:256", kDeepseekV3Like, 8, 16, 4096,
     "{tensor_parallel: 2, pipeline_parallel: 8, expert_parallel: 16}", 8},
    {"deepseek_v3_1024", "bridge", "h100:1024", kDeepseekV3Like, 16, 32, 4096,
     "{tensor_parallel: 2, pipeline_parallel: 16, expert_parallel: 32}", 16},
    {"deepseek_v3_v6e_256", "maxtext", "v6e:16x16", kDeepseekV3Like, 4, 256, 8192,
     "{expert_parallel: 16, data_parallel: 16, zero: 3}"},
    {"deepseek_ep_16_fsdp_4", "usual", "v6e:8x8", kDeepseekLike, 2, 64, 4096,
     "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"jamba_ep_16_fsdp_4", "usual", "v6e:8x8", kJambaLike, 8, 64, 4096,
     "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"jamba_ep_16_fsdp_4_few_tokens", "usual", "v6e:8x8", kJambaLike, 8, 64, 256,
     "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"nemotron_h_8b", "bridge", "h100:8", kNemotronH8b, 7, 4, 8192, "{tensor_parallel: 2, data_parallel: 4}", 192},
    {"nemotron_h_47b", "nemo", "h100:64", kNemotronH47b, 7, 8, 8192, "{tensor_parallel: 8, data_parallel: 8}", 24},
    {"nemotron_h_47b_sft", "bridge", "h100:32", kNemotronH47b, 14, 2, 8192,
     "{tensor_parallel: 8, pipeline_parallel: 2, data_parallel: 2}", 2},
    {"nemotron_h_56b", "nemo", "h100:256", kNemotronH56b, 7, 32, 8192, "{tensor_parallel: 8, data_parallel: 32}", 24},
    {"nemotron_3_nano", "bridge", "h100:8", kNemotron3Nano, 7, 8, 8192, "{expert_parallel: 8}", 128},
    {"nemotron_h_fsdp_64", "usual", "v6e:8x8", kNemotronH8b, 7, 64, 8192, "{data_parallel: 64, zero: 3}"},
};

}  // namespace

void PrintTo(const PublishedLayout& row, std::ostream* out) { *out << row.name; }

std::span<const PublishedLayout> published_layouts() { return kLayouts; }

const PublishedLayout& published_layout(std::string_view name) {
  const auto* const at = std::ranges::find(kLayouts, name, &PublishedLayout::name);
  MEGACPP_CHECK(at != std::end(kLayouts)) << "no published layout " << name;
  return *at;
}

recipe::Recipe published_recipe(const PublishedLayout& row) {
  const std::string text = std::string("name: ") + row.name + "\nmodel: {depth: " + std::to_string(row.blocks) + ", " +
                           row.model + "}\nlayout: " + row.layout +
                           "\ntrain: {steps: 1, precision: bf16, recompute: full, batch: " + std::to_string(row.batch) +
                           ", sequence: " + std::to_string(row.sequence) +
                           ", micro_steps: " + std::to_string(row.micro_steps) + "}\n";
  recipe::Recipe recipe = recipe::parse(text, row.name);
  if (recipe.layout.pipeline_parallel > 1) recipe.backend = "cuda";
  return recipe;
}

}  // namespace megacpp::published
