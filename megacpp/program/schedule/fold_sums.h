// SPDX-License-Identifier: Apache-2.0
// add(x, dot(a, b)) becomes dot(a, b, x), and likewise for every op that takes an addend and whose result nothing else
// reads: residuals, and gradients that several readers of a value leave. A reshape may stand between. A sum of products
// becomes a chain of them, in place where the addend dies. What would be computed inside the sum's cluster and never
// stored (a bias, an activation) stays there: as an addend it would have to be written out first.
//
// A product whose addend is made later moves to where the sum stands. That is done only where at no node more bytes are
// alive: what it reads is held longer only while its result, which is at least as large, is not there yet (inputs are
// there anyway, unless they are state that an output replaces). Otherwise the sum's other part takes it in, or it
// stays.
#pragma once

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

/// Ops that the target would not run with an addend stay.
ir::Graph fold_sums(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
