// SPDX-License-Identifier: Apache-2.0
// Axes of a mesh as sets. An axis stands at most once in each.
#pragma once

#include <algorithm>

#include "megacpp/ir/mesh.h"

namespace megacpp::partition {

inline bool contains(const ir::Axes& axes, ir::AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// Those of `axes` that are not in `taken`, in their order.
inline ir::Axes minus(const ir::Axes& axes, const ir::Axes& taken) {
  ir::Axes rest;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(rest),
               [&taken](ir::AxisId axis) { return !contains(taken, axis); });
  return rest;
}

/// All axes of both, sorted.
inline ir::Axes merged(const ir::Axes& a, const ir::Axes& b) {
  ir::Axes all = a;
  const ir::Axes more = minus(b, a);
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace megacpp::partition
