// SPDX-License-Identifier: Apache-2.0
// Logits are the largest tensor of most models, and their gradient the second largest; both are needed for one row of
// tokens at a time. The product that makes them, cross_entropy, its gradient and the products that read that gradient
// are cut along the rows and run part by part, so that the logits of one part are alive at once. What is left per row
// (the losses, the gradient of the hidden states) is joined behind the last part.
//
// A product that sums over rows (the gradient of the head's weight) takes what the parts before have left as its
// addend: the sum of all rows becomes one of the parts, first to last, each added to the f32 sum as a micro-step's
// gradient is. All else is computed as before, row by row.
//
// Left alone is a loss
//  - whose logits, or their gradient, something else reads too;
//  - whose gradient waits for the losses of all rows: a penalty on log-sum-exp (z-loss);
//  - with a sum over rows that is not kept in f32, which parts would round each;
//  - which has too few rows for two parts.
#pragma once

#include <cstdint>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

/// Leaves as many equal parts as the first dimension larger than one divides into, of at least `full_rate_rows` rows.
ir::Graph split_loss(const ir::Graph& graph, int64_t full_rate_rows);

}  // namespace megacpp::schedule
