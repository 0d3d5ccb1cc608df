// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/factor_axes.h"

#include <algorithm>

#include "megacpp/core/ir/axis_sets.h"

namespace megacpp::partition {
namespace {

int64_t size_of(const ops::Factors& factors, int f) { return factors.factors[static_cast<size_t>(f)].size; }

size_t nontrivial(const std::vector<int>& dim, const ops::Factors& factors) {
  return static_cast<size_t>(std::count_if(dim.begin(), dim.end(), [&](int f) { return size_of(factors, f) > 1; }));
}

// The longest prefix of the factor's axes that this dimension can express; what inner factors may still take stands in
// `open`: whether everything before them is split to single elements.
bool restrict_dim(FactorAxes& axes, const std::vector<int>& dim, const ops::Factors& factors, const ir::Mesh& mesh) {
  const bool alone = nontrivial(dim, factors) <= 1;
  bool changed = false, open = true;
  for (const int f : dim) {
    ir::Axes& own = axes[static_cast<size_t>(f)];
    int64_t left = size_of(factors, f);
    if (left == 1 && own.empty()) continue;
    size_t kept = 0;
    for (; kept < own.size() && open; ++kept) {
      const int64_t n = mesh.size(own[kept]);
      if (left % n != 0 && !alone) break;
      left = (left + n - 1) / n;
    }
    changed = changed || kept < own.size();
    own.resize(kept);
    open = open && left == 1;
  }
  return changed;
}

}  // namespace

FactorAxes to_factors(const ir::Sharding& sharding, const ops::DimFactors& dims, const ops::Factors& factors,
                      const ir::Mesh& mesh) {
  FactorAxes result(factors.factors.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const std::vector<int>& dim = dims[d];
    const bool alone = nontrivial(dim, factors) <= 1;
    size_t at = 0;
    int64_t left = dim.empty() ? 1 : size_of(factors, dim[0]);
    for (const ir::AxisId axis : sharding.dims[d]) {
      while (left == 1 && at + 1 < dim.size()) left = size_of(factors, dim[++at]);
      const int64_t n = mesh.size(axis);
      if (dim.empty() || (left % n != 0 && !alone)) break;
      result[static_cast<size_t>(dim[at])].push_back(axis);
      left = (left + n - 1) / n;
    }
  }
  return result;
}

void make_expressible(FactorAxes& axes, const ops::Factors& factors, const ir::Mesh& mesh) {
  for (size_t f = 0; f < axes.size(); ++f)
    if (factors.factors[f].size == 1) axes[f].clear();
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto* tensors : {&factors.operands, &factors.results})
      for (const ops::DimFactors& dims : *tensors)
        for (const std::vector<int>& dim : dims) changed = restrict_dim(axes, dim, factors, mesh) || changed;
  }
}

ir::Sharding to_sharding(const FactorAxes& axes, const ops::DimFactors& dims) {
  ir::Sharding sharding = ir::Sharding::replicated(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    for (const int f : dims[d]) {
      const ir::Axes& own = axes[static_cast<size_t>(f)];
      sharding.dims[d].insert(sharding.dims[d].end(), own.begin(), own.end());
    }
  return sharding;
}

ir::Axes summed_axes(const FactorAxes& axes, const ops::DimFactors& dims) {
  std::vector<bool> present(axes.size(), false);
  for (const std::vector<int>& dim : dims)
    for (const int f : dim) present[static_cast<size_t>(f)] = true;
  ir::Axes summed;
  for (size_t f = 0; f < axes.size(); ++f)
    if (!present[f]) summed.insert(summed.end(), axes[f].begin(), axes[f].end());
  std::sort(summed.begin(), summed.end());
  return summed;
}

ir::Axes used_axes(const FactorAxes& axes) {
  ir::Axes used;
  for (const ir::Axes& own : axes) used.insert(used.end(), own.begin(), own.end());
  return used;
}

void extend_split(FactorAxes& axes, const FactorAxes& offered) {
  for (size_t f = 0; f < axes.size(); ++f) {
    if (offered[f].size() <= axes[f].size() || !std::equal(axes[f].begin(), axes[f].end(), offered[f].begin()))
      continue;
    for (size_t i = axes[f].size(); i < offered[f].size(); ++i) {
      if (ir::contains(used_axes(axes), offered[f][i])) break;
      axes[f].push_back(offered[f][i]);
    }
  }
}

void drop_replicated(FactorAxes& axes, const ops::Factors& factors) {
  for (size_t f = 0; f < axes.size(); ++f)
    if (factors.factors[f].kind == ops::FactorKind::replicated) axes[f].clear();
}

bool is_summed(int factor, const ops::Factors& factors) {
  return std::any_of(factors.results.begin(), factors.results.end(), [factor](const ops::DimFactors& dims) {
    return std::none_of(dims.begin(), dims.end(), [factor](const std::vector<int>& dim) {
      return std::find(dim.begin(), dim.end(), factor) != dim.end();
    });
  });
}

}  // namespace megacpp::partition
