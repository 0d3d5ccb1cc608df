// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/resolved_layout.h"

#include <algorithm>

#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/plan/spread.h"
#include "megacpp/program/plan/tensor_split.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::plan {
namespace {

constexpr int64_t kGradientBytes = 4;  // gradients are added up in f32

/// As Megatron-Core sizes its buckets: large enough that a collective over all chips pays.
int64_t published_bucket_bytes(int64_t sharing_chips) {
  return kGradientBytes * std::max<int64_t>(40'000'000, 1'000'000 * sharing_chips);
}

}  // namespace

ResolvedLayout::ResolvedLayout() {
  keys_.zero = zero_level(keys_);
  keys_.chips = product_of_degrees(keys_);
}

ResolvedLayout::ResolvedLayout(const recipe::Model& model, const recipe::Layout& requested) : keys_(requested) {
  keys_.zero = zero_level(requested);
  keys_.chips = product_of_degrees(requested);
  keys_.sequence_parallel = requested.sequence_parallel && requested.tensor_parallel > 1;
  keys_.load_balance = is_balanced(model, requested);
  if (recipe::has_experts(model)) keys_.expert_tensor_parallel = expert_tensor_parallel(requested);
  if (requested.bucket_bytes == 0)
    keys_.bucket_bytes =
        published_bucket_bytes(requested.data_parallel * requested.expert_parallel * requested.context_parallel);
}

}  // namespace megacpp::plan
