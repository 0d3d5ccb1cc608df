// SPDX-License-Identifier: Apache-2.0
// Turns convert(f(x)) from f32 to bf16 into an f with a bf16 result, for every op that can choose its result dtype and
// whose result nothing else reads: the gradient of the logits is as large as anything in a step, and is multiplied in
// bf16. It is rounded once either way, by our own kernels to the same bits; a library's product that leaves bf16 may be
// another algorithm's, which sums in another order, in f32 too.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// Ops that the target would not run with a bf16 result stay.
ir::Graph narrow_results(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
