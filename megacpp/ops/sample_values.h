// SPDX-License-Identifier: Apache-2.0
// Operand values of a sample: what table tests and backend conformance run an op on.
#pragma once

#include <vector>

#include "megacpp/ops/op_def.h"

namespace megacpp::ops {

/// Drawn from the sample's range by Philox (same numbers on every machine), then given to its fill function.
std::vector<Tensor> sample_operands(const OpDef& op, const Sample& sample);

}  // namespace megacpp::ops
