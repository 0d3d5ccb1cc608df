// SPDX-License-Identifier: Apache-2.0
// Runs a graph with the ops' reference kernels, one node after the other, in double precision rounded to each value's
// dtype (or, for gradient checks, not rounded at all). Slow and obvious: the answer every fast path is compared with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/ops/tensor.h"

namespace megacpp::ops {

enum class Rounding { to_dtype, none };

/// One op on given operands; results have the inferred types.
std::vector<Tensor> evaluate_op(std::string_view op, const std::vector<Tensor>& operands, const ir::Attrs& attrs,
                                Rounding rounding = Rounding::to_dtype);

/// Inputs by name; returns outputs by name.
std::map<std::string, Tensor> evaluate(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs,
                                       Rounding rounding = Rounding::to_dtype);

}  // namespace megacpp::ops
