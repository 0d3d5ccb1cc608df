// SPDX-License-Identifier: Apache-2.0
#include "tests/published/published_layouts.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "megacpp/base/error.h"
#include "megacpp/recipe/parse.h"

namespace megacpp::published {
namespace {

constexpr const char* kLlama7b =
    "{pattern: AE, depth: 2, hidden: 4096, vocab: 32000, attention: {heads: 32, kv_heads: 32, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 11008}}";
constexpr const char* kLlama8b =
    "{pattern: AE, depth: 2, hidden: 4096, vocab: 128256, attention: {heads: 32, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336}}";
constexpr const char* kLlama70b =
    "{pattern: AE, depth: 4, hidden: 8192, vocab: 128256, attention: {heads: 64, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 28672}}";
constexpr const char* kLlama405b =
    "{pattern: AE, depth: 16, hidden: 16384, vocab: 128256, attention: {heads: 128, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 53248}}";
constexpr const char* kMixtral =
    "{pattern: AE, depth: 2, hidden: 4096, vocab: 32000, attention: {heads: 32, kv_heads: 8, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336, experts: 8, top_k: 2, capacity_factor: 1.25}}";
constexpr const char* kDeepseekLike =
    "{pattern: AE, depth: 2, hidden: 2048, vocab: 102400, attention: {heads: 16, kv_heads: 16, head_dim: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 1408, experts: 64, top_k: 6, capacity_factor: 1.25, "
    "shared_intermediate: 2816}}";
constexpr const char* kJambaLike =  // 49 billion parameters with 64 blocks
    "{pattern: MDMEMDAE, depth: 8, hidden: 4096, vocab: 65536, "
    "attention: {heads: 32, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 128, head_dim: 64, state: 16, groups: 8, chunk: 128}, "
    "feed_forward: {activation: swiglu, intermediate: 14336, experts: 16, top_k: 2, capacity_factor: 1.25}, "
    "letters: {D: {family: E, feed_forward: {experts: 0}}}}";
constexpr const char* kNemotronHLike =
    "{pattern: MEMEMAE, depth: 7, hidden: 4096, vocab: 131072, "
    "attention: {heads: 32, kv_heads: 8, head_dim: 128, rope: false}, "
    "mamba: {heads: 128, head_dim: 64, state: 128, groups: 8, chunk: 128}, "
    "feed_forward: {activation: relu2, intermediate: 21504}}";

const PublishedLayout kLayouts[] = {
    {"llama2_7b", "index", kLlama7b, 4, 4096, "{tensor_parallel: 2, data_parallel: 4}"},
    {"llama3_8b", "index", kLlama8b, 4, 8192, "{tensor_parallel: 2, data_parallel: 4}"},
    {"llama3_8b_16k", "index", kLlama8b, 2, 16384, "{tensor_parallel: 2, context_parallel: 2, data_parallel: 2}"},
    {"llama3_8b_64k", "index", kLlama8b, 2, 65536, "{tensor_parallel: 2, context_parallel: 4, data_parallel: 2}"},
    {"llama3_70b", "index", kLlama70b, 2, 8192, "{tensor_parallel: 8, pipeline_parallel: 4, data_parallel: 2}", 4},
    {"llama3_70b_16k", "index", kLlama70b, 2, 16384,
     "{tensor_parallel: 8, pipeline_parallel: 4, context_parallel: 2, data_parallel: 2}", 4},
    {"llama3_70b_sft", "index", kLlama70b, 2, 8192, "{tensor_parallel: 4, pipeline_parallel: 4, data_parallel: 2}", 4},
    {"llama31_405b", "index", kLlama405b, 2, 8192, "{tensor_parallel: 8, pipeline_parallel: 16, data_parallel: 2}", 16},
    {"llama3_70b_64k", "index", kLlama70b, 2, 65536,
     "{tensor_parallel: 8, pipeline_parallel: 4, context_parallel: 4, data_parallel: 2}", 4},
    {"llama31_70b_v6e_256", "maxtext", kLlama70b, 256, 8192, "{data_parallel: 256, zero: 3}", 5},
    {"fsdp_64", "usual", kLlama7b, 128, 4096, "{data_parallel: 64, zero: 3}"},
    {"fsdp_64_few_tokens", "usual", kLlama70b, 64, 1024, "{data_parallel: 64, zero: 3}"},
    {"fsdp_32_tp_8", "usual", kLlama70b, 32, 8192, "{data_parallel: 32, tensor_parallel: 8, zero: 3}"},
    {"mixtral_ep_8_fsdp_8", "usual", kMixtral, 64, 4096, "{expert_parallel: 8, data_parallel: 8, zero: 3}"},
    {"mixtral_ep_4_fsdp_64", "usual", kMixtral, 256, 4096, "{expert_parallel: 4, data_parallel: 64, zero: 3}"},
    {"mixtral_ep_8_tp_2", "usual", kMixtral, 16, 4096, "{expert_parallel: 8, tensor_parallel: 2, data_parallel: 2}"},
    {"experts_over_all", "automodel", kDeepseekLike, 128, 4096, "{expert_parallel: 64, zero: 3}"},
    {"deepseek_ep_16_fsdp_4", "usual", kDeepseekLike, 64, 4096, "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"jamba_ep_16_fsdp_4", "usual", kJambaLike, 64, 4096, "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"jamba_ep_16_fsdp_4_few_tokens", "usual", kJambaLike, 64, 256, "{expert_parallel: 16, data_parallel: 4, zero: 3}"},
    {"nemotron_h_tp_8", "usual", kNemotronHLike, 8, 8192, "{tensor_parallel: 8, data_parallel: 8}"},
    {"nemotron_h_fsdp_64", "usual", kNemotronHLike, 64, 8192, "{data_parallel: 64, zero: 3}"},
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
  const std::string text = std::string("name: ") + row.name + "\nmodel: " + row.model + "\nlayout: " + row.layout +
                           "\ntrain: {steps: 1, precision: bf16, recompute: full, batch: " + std::to_string(row.batch) +
                           ", sequence: " + std::to_string(row.sequence) +
                           ", micro_steps: " + std::to_string(row.micro_steps) + "}\n";
  return recipe::parse(text, row.name);
}

}  // namespace megacpp::published
