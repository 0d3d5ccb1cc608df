// SPDX-License-Identifier: Apache-2.0
// Between how a tensor's dimensions are split and how an op's factors are: a dimension that is the product (k g d) and
// split over axes a, b splits factor k first and goes on to g only when k is split into single elements.
#pragma once

#include <optional>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::partition {

/// By factor of the op.
using FactorAxes = std::vector<ir::Axes>;

/// The split of each factor that `sharding` of a tensor with these dimensions implies. Axes that no factor can take
/// (sizes that do not divide inside a product) are left out.
FactorAxes to_factors(const ir::Sharding& sharding, const ops::DimFactors& dims, const ops::Factors& factors,
                      const ir::Mesh& mesh);

/// Drops axes until every operand and result can be split as the factors say: an inner factor of a product is split
/// only when the outer ones are split to single elements, and only a factor that is alone in its dimension unevenly.
void make_expressible(FactorAxes& axes, const ops::Factors& factors, const ir::Mesh& mesh);

/// The sharding of a tensor under a split of the factors.
ir::Sharding to_sharding(const FactorAxes& axes, const ops::DimFactors& dims);

/// Axes of the factors that do not stand in `dims`: where they are split, chips hold partial sums.
ir::Axes summed_axes(const FactorAxes& axes, const ops::DimFactors& dims);

/// Axes that split any factor.
ir::Axes used_axes(const FactorAxes& axes);

/// Takes over splits of factors that are not split yet, or are split by a leading part of the same axes.
void extend_split(FactorAxes& axes, const FactorAxes& offered);

/// No split of factors that the op needs whole.
void drop_replicated(FactorAxes& axes, const ops::Factors& factors);

/// Whether some result no longer has the factor.
bool is_summed(int factor, const ops::Factors& factors);

}  // namespace megacpp::partition
