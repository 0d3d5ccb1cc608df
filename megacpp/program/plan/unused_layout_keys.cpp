// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/unused_layout_keys.h"

#include <algorithm>

#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::plan {
namespace {

using recipe::Recipe;

constexpr const char* kNoRingBlocks = "no block of the model passes keys and values along a split sequence";
constexpr const char* kOneCopy = "no two chips hold the same weights";

bool is_one_chip(const Recipe& recipe) { return product_of_degrees(recipe.layout) == 1; }
bool has_no_tensor(const Recipe& recipe) { return recipe.layout.tensor_parallel == 1; }
bool has_no_experts_apart(const Recipe& recipe) { return recipe.layout.expert_parallel == 1; }
bool has_no_context(const Recipe& recipe) { return recipe.layout.context_parallel == 1; }
bool has_no_ring(const Recipe& recipe) { return recipe.layout.context_attention != recipe::ContextAttention::ring; }
bool has_no_ring_blocks(const Recipe& recipe) {
  return std::ranges::none_of(recipe::block_types(recipe.model),
                              [](const recipe::BlockType& type) { return type.traits().ring_elements > 0; });
}
bool has_no_pipeline(const Recipe& recipe) { return recipe.layout.pipeline_parallel == 1; }

bool keeps_activations_on_devices(const Recipe& recipe) { return !recipe.layout.offloads_activations(); }

// Chips of tensor_parallel hold the same norms, whose gradients zero 2 and 3 reduce in every micro-step.
bool has_one_copy(const Recipe& recipe) { return product_of_degrees(recipe.layout) == recipe.layout.pipeline_parallel; }

bool keeps_weights_whole(const Recipe& recipe) { return zero_level(recipe.layout) < 3; }

}  // namespace

const std::vector<recipe::IgnoredKey>& unused_layout_keys() {
  static const std::vector<recipe::IgnoredKey> keys = {
      {.key = "layout.sequence_parallel", .decides = "layout.tensor_parallel is 1", .applies = has_no_tensor},
      {.key = "layout.expert_tensor_parallel", .decides = "layout.tensor_parallel is 1", .applies = has_no_tensor},
      {.key = "layout.dispatcher", .decides = "layout.expert_parallel is 1", .applies = has_no_experts_apart},
      {.key = "layout.context_attention", .decides = "layout.context_parallel is 1", .applies = has_no_context},
      {.key = "layout.context_attention", .decides = kNoRingBlocks, .applies = has_no_ring_blocks},
      {.key = "layout.load_balance", .decides = "layout.context_parallel is 1", .applies = has_no_context},
      {.key = "layout.load_balance", .decides = kNoRingBlocks, .applies = has_no_ring_blocks},
      {.key = "layout.load_balance", .decides = "layout.context_attention is not ring", .applies = has_no_ring},
      {.key = "layout.schedule", .decides = "layout.pipeline_parallel is 1", .applies = has_no_pipeline},
      {.key = "layout.zero", .decides = kOneCopy, .applies = has_one_copy},
      {.key = "layout.reshard_after_forward", .decides = kOneCopy, .applies = has_one_copy},
      {.key = "layout.reshard_after_forward", .decides = "layout.zero is below 3", .applies = keeps_weights_whole},
      {.key = "layout.prefetch", .decides = "one chip exchanges nothing", .applies = is_one_chip},
      {.key = "layout.bucket_bytes", .decides = "one chip exchanges nothing", .applies = is_one_chip},
      {.key = "layout.max_replicated_bytes", .decides = "one chip exchanges nothing", .applies = is_one_chip},
      {.key = "layout.collectives", .decides = "one chip exchanges nothing", .applies = is_one_chip},
      {.key = "layout.offload_blocks",
       .decides = "layout.offload leaves activations on the devices",
       .applies = keeps_activations_on_devices}};
  return keys;
}

}  // namespace megacpp::plan
