// SPDX-License-Identifier: Apache-2.0
// What the ops between chips compute, slow and obvious: from the operands of a whole group, the results of one member.
// The answer that transports and partitioned programs are compared with. send and recv are not here: they pair two
// programs, not the members of a group.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "megacpp/ir/attrs.h"
#include "megacpp/ops/tensor.h"

namespace megacpp::ops {

/// `operands[m]` are the operands of member m; all members have the same types. Results are not rounded.
std::vector<Tensor> evaluate_collective(std::string_view op, std::span<const std::vector<Tensor>> operands,
                                        size_t member, const ir::Attrs& attrs);

}  // namespace megacpp::ops
