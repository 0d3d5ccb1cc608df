// SPDX-License-Identifier: Apache-2.0
// Ring attention: the partition rules of attention and attention_grad for a sequence that is split over chips. Every
// chip keeps its queries, while the runs of keys and values travel from chip to chip until each has met every query.
// Forward, the parts are merged by their log-sum-exp: n-1 passes around n chips. Backward, a run takes the gradients of
// its keys and values along, and these come home with the n-th pass.
#pragma once

#include <vector>

#include "megacpp/ops/partition_rule.h"

namespace megacpp::ops {

/// Nothing unless queries, keys and values are split over the same chips into equal runs: tokens are then made whole.
std::vector<PartitionedResult> partition_attention(PartitionContext& context);
std::vector<PartitionedResult> partition_attention_grad(PartitionContext& context);

}  // namespace megacpp::ops
