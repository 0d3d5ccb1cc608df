// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/box.h"

#include <algorithm>
#include <cstring>

namespace megacpp::checkpoint {
namespace {

/// Elements between the start of a buffer and the place where `inner` begins in it.
int64_t element_at(const ir::Shape& place, const Box& box, const ir::Shape& stored) {
  int64_t at = 0;
  for (size_t d = 0; d < stored.size(); ++d) at = at * stored[d] + place[d] - box.offset[d];
  return at;
}

Box overlap_of(const Box& a, const Box& b) {
  Box overlap = a;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    overlap.offset[d] = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
    overlap.shape[d] = std::max<int64_t>(0, end - overlap.offset[d]);
  }
  return overlap;
}

/// Dimensions before this one are walked; from it on the overlap is contiguous in both buffers.
size_t contiguous_from(const Box& overlap, const ir::Shape& from, const ir::Shape& to) {
  size_t first = overlap.shape.empty() ? 0 : overlap.shape.size() - 1;
  while (first > 0 && overlap.shape[first] == from[first] && overlap.shape[first] == to[first]) --first;
  return first;
}

/// The next place in row-major order over the first `dims` dimensions of the box; false at its end.
bool advance(ir::Shape& place, const Box& box, size_t dims) {
  for (size_t d = dims; d-- > 0;) {
    if (++place[d] < box.offset[d] + box.shape[d]) return true;
    place[d] = box.offset[d];
  }
  return false;
}

}  // namespace

std::string to_string(const Box& box) { return ir::to_string(box.offset) + "+" + ir::to_string(box.shape); }

Box box_of(const ir::Shape& whole, const ir::Sharding& sharding, const ir::Mesh& mesh, int64_t chip) {
  Box box;
  for (size_t d = 0; d < whole.size(); ++d) {
    const ir::LocalRange range = ir::local_range(whole[d], sharding.dims[d], mesh, chip);
    box.offset.push_back(range.first);
    box.shape.push_back(range.count);
  }
  return box;
}

int64_t copy_overlap(const BoxBytes<const std::byte>& from, const BoxBytes<std::byte>& to, int64_t element_bytes) {
  const Box overlap = overlap_of(from.box, to.box);
  if (overlap.elements() == 0) return 0;
  const size_t outer = contiguous_from(overlap, from.stored, to.stored);
  int64_t run = element_bytes;
  for (size_t d = outer; d < overlap.shape.size(); ++d) run *= overlap.shape[d];
  ir::Shape place = overlap.offset;
  do {
    std::memcpy(to.bytes.data() + element_at(place, to.box, to.stored) * element_bytes,
                from.bytes.data() + element_at(place, from.box, from.stored) * element_bytes, static_cast<size_t>(run));
  } while (advance(place, overlap, outer));
  return overlap.elements() * element_bytes;
}

}  // namespace megacpp::checkpoint
