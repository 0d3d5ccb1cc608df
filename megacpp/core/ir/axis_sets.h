// SPDX-License-Identifier: Apache-2.0
// Axes of a mesh as sets. An axis stands at most once in each.
#pragma once

#include <algorithm>
#include <iterator>

#include "megacpp/core/ir/mesh.h"

namespace megacpp::ir {

inline bool contains(const Axes& axes, AxisId axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

/// Those of `axes` that are not in `taken`, in their order.
inline Axes minus(const Axes& axes, const Axes& taken) {
  Axes rest;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(rest),
               [&taken](AxisId axis) { return !contains(taken, axis); });
  return rest;
}

/// All axes of both, sorted.
inline Axes merged(const Axes& a, const Axes& b) {
  Axes all = a;
  const Axes more = minus(b, a);
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace megacpp::ir
