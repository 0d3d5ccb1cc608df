// SPDX-License-Identifier: Apache-2.0
// Factors written as one line of einsum-like text, for ops of fixed rank:
//   "b s h, h f -> b s f"                      one name per dimension; names absent from every result are reductions
//   "b s (k g) d, b t k d -> b s (k g) d"      a dimension that is a product, major to minor
//   "b s h, * -> b s h"                        '*': an operand (or result) of any rank that every chip needs whole
// Names listed in `replicated` (space separated) must not be split.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

Factors factors_from(const NodeView& view, std::string_view spec, std::string_view replicated = "");

/// "b0 b1 " for prefix "b" and count 2: the names of as many dimensions as a tensor happens to have.
std::string numbered_names(std::string_view prefix, int64_t count);

/// Every operand and result has the result's shape and every dimension is parallel.
Factors elementwise_factors(const NodeView& view);

}  // namespace megacpp::ops
