// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/runs.h"

#include <algorithm>

namespace megacpp::collectives {
namespace {

constexpr int64_t kSliceGrain = 64;  // elements: a cache line of the smallest dtype

int64_t grains_of(int64_t elements) { return (elements + kSliceGrain - 1) / kSliceGrain; }

Runs gather_runs(const Part& part, int64_t width, const Pair& pair) {
  const Fold in = fold(part.shape, part.dim);
  const int64_t run = in.count * in.inner * width;
  return {.counts = {in.outer, 1, 1},
          .run_bytes = run,
          .source = {.first = 0, .strides = {run, 0, 0}},
          .target = {.first = pair.from * run, .strides = {pair.members * run, 0, 0}}};
}

Runs scatter_runs(const Part& part, int64_t width, const Pair& pair) {
  const Fold in = fold(part.shape, part.dim);
  const int64_t run = in.count / pair.members * in.inner * width;
  return {.counts = {in.outer, 1, 1},
          .run_bytes = run,
          .source = {.first = pair.to * run, .strides = {pair.members * run, 0, 0}},
          .target = {.first = 0, .strides = {run, 0, 0}}};
}

Runs slice_runs(const Part& part, int64_t width, const Pair& pair) {
  const Slice slice = slice_of(ir::num_elements(part.shape), pair.to, pair.members);
  return {.run_bytes = slice.count * width, .source = {.first = slice.first * width}, .target = {}};
}

Runs permute_runs(const Call& call, const Part& part, int64_t width, const Pair& pair) {
  const int64_t n = pair.members, source = ((pair.to - call.shift) % n + n) % n;
  if (source != pair.from) return {};
  return {.run_bytes = ir::num_elements(part.shape) * width, .source = {}, .target = {}};
}

// Two dimensions differ between operand and result: the one that is cut and the one that is joined. Whichever comes
// first, what stays together is a run of the later one, and one side is n times longer in the earlier dimension, the
// other in the later. So both orders are one loop over [outer, earlier, middle] of a piece, with the sides exchanged.
Runs exchange_runs(const Part& part, int64_t width, const Pair& pair) {
  const int64_t n = pair.members;
  const Fold cut = fold(part.shape, part.dim);
  // To cut and join the same dimension is to join one of length 1 right before it.
  const Fold join =
      part.dim == part.concat_dim ? Fold{cut.outer, 1, cut.count * cut.inner} : fold(part.shape, part.concat_dim);
  const bool cut_first = part.dim < part.concat_dim;
  const int64_t outer = cut_first ? cut.outer : join.outer;
  const int64_t earlier = cut_first ? cut.count / n : join.count;
  const int64_t middle = cut_first ? cut.inner / (join.count * join.inner) : join.inner / (cut.count * cut.inner);
  const int64_t run = (cut_first ? join.count * join.inner : cut.count / n * cut.inner) * width;
  const auto long_earlier = [&](int64_t piece) {
    return Runs::Side{.first = piece * earlier * middle * run,
                      .strides = {n * earlier * middle * run, middle * run, run}};
  };
  const auto long_later = [&](int64_t piece) {
    return Runs::Side{.first = piece * run, .strides = {earlier * middle * n * run, middle * n * run, n * run}};
  };
  return {.counts = {outer, earlier, middle},
          .run_bytes = run,
          .source = cut_first ? long_earlier(pair.to) : long_later(pair.to),
          .target = cut_first ? long_later(pair.from) : long_earlier(pair.from)};
}

}  // namespace

Runs runs_between(const Call& call, size_t part, const Pair& pair) {
  const Part& moved = call.parts[part];
  const int64_t width = ir::dtype_bytes(call.dtype);
  if (ir::num_elements(moved.shape) == 0) return {};
  switch (call.kind) {
    case Kind::all_gather:
      return gather_runs(moved, width, pair);
    case Kind::reduce_scatter:
      return scatter_runs(moved, width, pair);
    case Kind::all_reduce:
      return slice_runs(moved, width, pair);
    case Kind::all_to_all:
      return exchange_runs(moved, width, pair);
    case Kind::permute:
      return permute_runs(call, moved, width, pair);
    case Kind::send:
    case Kind::recv:
      return {.run_bytes = ir::num_elements(moved.shape) * width, .source = {}, .target = {}};
  }
  return {};
}

Slice slice_of(int64_t elements, int64_t index, int64_t members) {
  const int64_t grains = grains_of(elements);
  const int64_t first = grains * index / members * kSliceGrain;
  return {first, std::min(elements, grains * (index + 1) / members * kSliceGrain) - first};
}

int64_t term_bytes(const Call& call, size_t part, int64_t members) {
  const int64_t elements = ir::num_elements(call.parts[part].shape), width = ir::dtype_bytes(call.dtype);
  if (call.kind == Kind::reduce_scatter) return elements / members * width;
  if (call.kind == Kind::all_reduce) return (grains_of(elements) + members - 1) / members * kSliceGrain * width;
  return 0;
}

int64_t terms_bytes(const Call& call, int64_t members) {
  int64_t bytes = 0;
  for (size_t part = 0; part < call.parts.size(); ++part) bytes += members * term_bytes(call, part, members);
  return bytes;
}

int64_t term_offset(const Call& call, size_t part, int64_t slot, int64_t members) {
  int64_t offset = 0;
  for (size_t before = 0; before < part; ++before) offset += members * term_bytes(call, before, members);
  return offset + slot * term_bytes(call, part, members);
}

}  // namespace megacpp::collectives
