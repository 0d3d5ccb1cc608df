// SPDX-License-Identifier: Apache-2.0
// Layouts that others publish for models of their size, cut to a few blocks: which of them is legal does not depend on
// the depth. Where the source leaves the degree of data parallelism to the reader it fills the hardware; with pipelines
// there are as many micro-steps as stages, chunks of stages are fewer with the blocks, and what is fp8 there is bf16.
//
// Where Megatron spreads whole experts over chips of tensors too (EP 64 over TP 2, expert TP 1), an expert is split
// over those here (expert_parallel 32, tensor_parallel 2): the same bytes of a chip. Of two slices that the network
// joins, one is here. Sequences that a chip has one after the other are micro-steps.
//
// Sources, with the commit that was read:
//   index      NVIDIA-NeMo/Megatron-Bridge 067f987df, skills/nemo-mbridge-recipe-recommender/references/recipe-index.md
//   bridge     the same, src/megatron/bridge/recipes: qwen/h100/qwen3_moe.py, deepseek/h100/deepseek_v{2,3}.py,
//              nemotronh/h100/nemotronh.py (8B, 47B) and nemotron_3_nano.py
//   megatron   NVIDIA/Megatron-LM d98e8a64dd, examples/mixtral/train_mixtral_8x7b_distributed.sh
//   nemo       NVIDIA-NeMo/NeMo 8cfedd7203, scripts/performance/recommended_model_configs/model_configs_h100.csv, and
//              nemo/collections/llm/recipes/mixtral_8x7b_16k.py
//   maxtext    AI-Hypercomputer/maxtext e591f30cb, benchmarks/maxtext_trillium_model_configs.py (mixtral_8x7b_dropped,
//              mixtral_8x22b_dropped, deepseek_v3_ep16), and AI-Hypercomputer/tpu-recipes c8cfe2f,
//              training/trillium/Llama3.1-70B-MaxText/v6e-256
//   titan      pytorch/torchtitan b5bcd76c6, torchtitan/models/{llama3,deepseek_v3}/config_registry.py
//   automodel  the performance summary of NVIDIA NeMo AutoModel (docs.nvidia.com/nemo/automodel, performance-summary):
//              experts and FSDP over the same 64 chips
//   usual      nobody's in particular: FSDP alone, experts over some of its chips, or tensors inside a node; embedding
//              and head as one table too, sizes of Llama 3.2 1B. Of Jamba no layout of a training is public: none of
//              these repositories has one.
// Sizes of Mixtral, Qwen3 and DeepSeek are those of src/maxtext/configs/models of the same maxtext; of Nemotron-H those
// of the recipes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string_view>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::published {

struct PublishedLayout {
  const char* name;
  const char* source;
  const char* hardware;  // that it is published for, or is usual on
  const char* model;     // keys under model:, without depth
  int64_t blocks;        // that it is cut to: legal for its stages
  int64_t batch;         // sequences of a micro-step over all chips
  int64_t sequence;      // tokens
  const char* layout;
  int64_t micro_steps = 1;
};

void PrintTo(const PublishedLayout& row, std::ostream* out);

std::span<const PublishedLayout> published_layouts();
/// One of them, by its name.
const PublishedLayout& published_layout(std::string_view name);

/// A training in bf16 that computes everything again, with backend cuda where there are stages: XLA has none.
recipe::Recipe published_recipe(const PublishedLayout& row);

}  // namespace megacpp::published
