// SPDX-License-Identifier: Apache-2.0
// Ring attention: the partition rules of attention and attention_grad for a sequence that is split over chips. Every
// chip keeps its queries, while the runs of keys and values travel from chip to chip until each has met every query
// that sees some of it: n-1 passes around n chips, fewer where tokens stand in order and the mask reaches no further.
// Forward, the parts are merged by their log-sum-exp. Backward, a run takes the gradients of its keys and values along,
// and one more pass brings these home. What describes tokens, positions and segments, does not travel: every chip holds
// it whole along the sequence.
#pragma once

#include <vector>

#include "megacpp/program/ops/partition_rule.h"

namespace megacpp::ops {

/// Nothing unless queries, keys and values are split over the same chips into equal runs: tokens are then made whole.
std::vector<PartitionedResult> partition_attention(PartitionContext& context);
std::vector<PartitionedResult> partition_attention_grad(PartitionContext& context);

}  // namespace megacpp::ops
