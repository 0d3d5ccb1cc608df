// SPDX-License-Identifier: Apache-2.0
// cross_entropy and the cross_entropy_grad of the same logits become one cross_entropy_with_grad, which reads the
// logits once: they are as large as anything in a step. Only where what the gradient is multiplied with does not depend
// on the loss, as in training it does not.
#pragma once

#include "megacpp/ir/graph.h"
#include "megacpp/schedule/target.h"

namespace megacpp::schedule {

/// Losses that the target has no such kernel for stay.
ir::Graph join_losses(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
