// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/padding.h"

#include <vector>

namespace megacpp::emit {
namespace {

using ops::HloValue;
using ops::HloWriter;

// One axis splits each of `outer` shares, of `size` elements, into parts that together have `padded`.
struct Split {
  int64_t outer;
  int64_t size;
  int64_t padded;
};

std::vector<Split> splits_of(int64_t size, const ir::Axes& axes, const ir::Mesh& mesh) {
  std::vector<Split> splits;
  int64_t outer = 1;
  for (const ir::AxisId axis : axes) {
    const int64_t part = ir::local_size(size, {axis}, mesh);
    splits.push_back({outer, size, part * mesh.size(axis)});
    outer *= mesh.size(axis);
    size = part;
  }
  return splits;
}

// `change` of dimension d + 1 where dimension d is seen as [outer, rest].
template <typename Change>
HloValue in_shares(HloWriter& w, const HloValue& value, size_t d, int64_t outer, const Change& change) {
  if (outer == 1) return change(value, static_cast<int64_t>(d));
  ir::Shape shape = value.type.shape;
  const auto at = shape.begin() + static_cast<std::ptrdiff_t>(d);
  *at /= outer;
  shape.insert(at, outer);
  const HloValue changed = change(w.reshape(value, shape), static_cast<int64_t>(d) + 1);
  shape = changed.type.shape;
  shape[d] *= shape[d + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  return w.reshape(changed, shape);
}

}  // namespace

ir::Shape padded_shape(const ir::Shape& shape, const ir::Sharding& sharding, const ir::Mesh& mesh) {
  ir::Shape padded = ir::local_shape(shape, sharding, mesh);
  for (size_t d = 0; d < padded.size(); ++d) padded[d] *= mesh.size(sharding.dims[d]);
  return padded;
}

HloValue without_padding(HloWriter& writer, HloValue value, const ir::Shape& shape, const ir::Sharding& sharding) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::vector<Split> splits = splits_of(shape[d], sharding.dims[d], writer.mesh());
    for (auto split = splits.rbegin(); split != splits.rend(); ++split)
      if (split->size != split->padded)
        value = in_shares(writer, value, d, split->outer, [&](const HloValue& shares, int64_t dim) {
          return writer.slice(shares, dim, 0, split->size);
        });
  }
  return value;
}

HloValue with_padding(HloWriter& writer, HloValue value, const ir::Sharding& sharding) {
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    for (const Split& split : splits_of(value.type.shape[d], sharding.dims[d], writer.mesh()))
      if (split.size != split.padded)
        value = in_shares(writer, value, d, split.outer, [&](const HloValue& shares, int64_t dim) {
          return writer.pad(shares, dim, 0, split.padded - split.size, 0);
        });
  return value;
}

}  // namespace megacpp::emit
