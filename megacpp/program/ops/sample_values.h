// SPDX-License-Identifier: Apache-2.0
// Operand values of a sample: what table tests and backend conformance run an op on.
#pragma once

#include <vector>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

/// Drawn from the sample's range by Philox (same numbers on every machine), then given to its fill function.
std::vector<Tensor> sample_operands(const OpDef& op, const Sample& sample);

/// Places of tokens in documents of up to three tokens, [.., s]. Every second sequence goes on with a document that
/// began before it, as a run of a longer sequence may.
void fill_document_positions(Tensor& positions);

}  // namespace megacpp::ops
