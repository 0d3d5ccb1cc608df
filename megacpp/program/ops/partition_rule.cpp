// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/partition_rule.h"

#include <algorithm>

namespace megacpp::ops {

ValueId shard_index(Builder& b, const ir::Axes& axes, const ir::Mesh& mesh) {
  return b.one("shard_index", {}, {{"axes", ir::to_string(axes, mesh)}, {"parts", mesh.size(axes)}});
}

RuntimeRange runtime_range(Builder& b, int64_t size, const ir::Axes& axes, const ir::Mesh& mesh) {
  const auto integer = [&b](int64_t value) { return b.constant(static_cast<double>(value), {}, ir::DType::i32); };
  if (ir::divides(size, axes, mesh)) {
    const int64_t stored = size / mesh.size(axes);
    const ValueId index = shard_index(b, axes, mesh);
    const ValueId first = b.mul(index, integer(stored));
    return {first, integer(stored)};
  }
  RuntimeRange range{integer(0), integer(size)};
  int64_t stored = size;
  for (const ir::AxisId axis : axes) {
    stored = (stored + mesh.size(axis) - 1) / mesh.size(axis);
    const ValueId index = shard_index(b, {axis}, mesh);
    const ValueId skipped = b.mul(index, integer(stored));
    const ValueId left = b.sub(range.count, skipped);
    range.first = b.add(range.first, skipped);
    const ValueId at_least_none = b.max(left, integer(0));  // in a statement of its own: arguments have no order
    range.count = b.min(at_least_none, integer(stored));
  }
  return range;
}

ValueId fill_padding(Builder& b, ValueId x, const SplitDim& split, double value) {
  if (ir::divides(split.size, split.axes, split.mesh)) return x;
  const ir::Shape shape = b.shape(x);
  const RuntimeRange range = runtime_range(b, split.size, split.axes, split.mesh);
  const ValueId index = b.iota(shape, split.dim);
  const ValueId is_real = b.compare(index, b.broadcast(range.count, shape, {}), "lt");
  return b.select(is_real, x, b.constant_like(value, x));
}

ir::Sharding without_axes(const ir::Sharding& sharding, const ir::Axes& taken) {
  ir::Sharding result{.dims = sharding.dims};
  for (ir::Axes& axes : result.dims) {
    const auto at = std::find_if(axes.begin(), axes.end(), [&](ir::AxisId axis) {
      return std::find(taken.begin(), taken.end(), axis) != taken.end();
    });
    axes.erase(at, axes.end());
  }
  return result;
}

}  // namespace megacpp::ops
