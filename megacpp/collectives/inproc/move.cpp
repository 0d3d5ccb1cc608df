// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/move.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "megacpp/collectives/reduce.h"

namespace megacpp::collectives {
namespace {

const std::byte* operand_of(const Call& call, size_t part) {
  return static_cast<const std::byte*>(call.parts[part].in);
}
std::byte* result_of(const Call& call, size_t part) { return static_cast<std::byte*>(call.parts[part].out); }

// A piece that is already in place is left alone, as in-place use has it.
void place(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

const std::byte* operand_of(const Member& member, int64_t index, size_t part) {
  return operand_of(*member.calls[static_cast<size_t>(index)], part);
}

void all_gather(const Member& member, size_t part) {
  const Call& call = member.call();
  const Fold in = fold(call.parts[part].shape, call.parts[part].dim);
  const int64_t run = in.count * in.inner * ir::dtype_bytes(call.dtype);
  for (int64_t from = 0; from < member.size(); ++from)
    for (int64_t o = 0; o < in.outer; ++o)
      place(result_of(call, part) + (o * member.size() + from) * run, operand_of(member, from, part) + o * run, run);
}

// The reduction of elements [offset, offset + count) of all operands.
void reduce_range(const Member& member, size_t part, int64_t offset, int64_t count, std::byte* out) {
  const Call& call = member.call();
  for (size_t k = 0; k < member.calls.size(); ++k) member.operands[k] = member.calls[k]->parts[part].in;
  reduce({.dtype = call.dtype,
          .reduction = call.reduction,
          .operands = member.operands.first(member.calls.size()),
          .offset = offset,
          .count = count,
          .out = out});
}

void reduce_scatter(const Member& member, size_t part) {
  const Call& call = member.call();
  const Fold in = fold(call.parts[part].shape, call.parts[part].dim);
  const int64_t run = in.count / member.size() * in.inner;  // elements
  for (int64_t o = 0; o < in.outer; ++o)
    reduce_range(member, part, (o * member.size() + member.index) * run, run,
                 result_of(call, part) + o * run * ir::dtype_bytes(call.dtype));
}

// The elements of an all-reduce that one member reduces, in whole cache lines but for the last.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;
};
Slice slice_of(int64_t elements, int64_t index, int64_t members) {
  constexpr int64_t kGrain = 64;  // a cache line of the smallest dtype
  const int64_t grains = (elements + kGrain - 1) / kGrain;
  const int64_t first = grains * index / members * kGrain;
  return {first, std::min(elements, grains * (index + 1) / members * kGrain) - first};
}

void reduce_own_slice(const Member& member, size_t part) {
  const Call& call = member.call();
  const Slice own = slice_of(ir::num_elements(call.parts[part].shape), member.index, member.size());
  reduce_range(member, part, own.first, own.count, result_of(call, part) + own.first * ir::dtype_bytes(call.dtype));
}

void fetch_other_slices(const Member& member, size_t part) {
  const Call& call = member.call();
  const int64_t elements = ir::num_elements(call.parts[part].shape), width = ir::dtype_bytes(call.dtype);
  for (int64_t from = 0; from < member.size(); ++from) {
    const Slice slice = slice_of(elements, from, member.size());
    place(result_of(call, part) + slice.first * width,
          result_of(*member.calls[static_cast<size_t>(from)], part) + slice.first * width, slice.count * width);
  }
}

// Two dimensions differ between operand and result: the one that is cut and the one that is joined. Whichever comes
// first, what stays together is a run of the later one, and one side is n times longer in the earlier dimension, the
// other in the later. So both orders are one loop over [outer, earlier, middle] of a piece, with the sides exchanged.
void all_to_all(const Member& member, size_t part) {
  const Call& call = member.call();
  const Part& own = call.parts[part];
  const int64_t n = member.size();
  const Fold cut = fold(own.shape, own.dim);
  // To cut and join the same dimension is to join one of length 1 right before it.
  const Fold join =
      own.dim == own.concat_dim ? Fold{cut.outer, 1, cut.count * cut.inner} : fold(own.shape, own.concat_dim);
  const bool cut_first = own.dim < own.concat_dim;
  const int64_t outer = cut_first ? cut.outer : join.outer;
  const int64_t earlier = cut_first ? cut.count / n : join.count;
  const int64_t middle = cut_first ? cut.inner / (join.count * join.inner) : join.inner / (cut.count * cut.inner);
  const int64_t run = (cut_first ? join.count * join.inner : cut.count / n * cut.inner) * ir::dtype_bytes(call.dtype);

  for (int64_t from = 0; from < n; ++from)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t e = 0; e < earlier; ++e)
        for (int64_t m = 0; m < middle; ++m) {
          const auto long_earlier = [&](int64_t piece) { return ((o * n + piece) * earlier + e) * middle + m; };
          const auto long_later = [&](int64_t piece) { return ((o * earlier + e) * middle + m) * n + piece; };
          const int64_t source = cut_first ? long_earlier(member.index) : long_later(member.index);
          const int64_t target = cut_first ? long_later(from) : long_earlier(from);
          place(result_of(call, part) + target * run, operand_of(member, from, part) + source * run, run);
        }
}

void permute(const Member& member, size_t part) {
  const Call& call = member.call();
  const int64_t n = member.size(), from = ((member.index - call.shift) % n + n) % n;
  place(result_of(call, part), operand_of(member, from, part),
        ir::num_elements(call.parts[part].shape) * ir::dtype_bytes(call.dtype));
}

}  // namespace

void move_data(const Member& member, int64_t step) {
  for (size_t part = 0; part < member.call().parts.size(); ++part) {
    if (ir::num_elements(member.call().parts[part].shape) == 0) continue;
    switch (member.call().kind) {
      case Kind::all_gather:
        all_gather(member, part);
        break;
      case Kind::reduce_scatter:
        reduce_scatter(member, part);
        break;
      case Kind::all_reduce:
        step == 1 ? reduce_own_slice(member, part) : fetch_other_slices(member, part);
        break;
      case Kind::all_to_all:
        all_to_all(member, part);
        break;
      case Kind::permute:
        permute(member, part);
        break;
      case Kind::send:
      case Kind::recv:
        break;  // no groups: receive()
    }
  }
}

void receive(const Call& send, const Call& recv) {
  for (size_t part = 0; part < recv.parts.size(); ++part)
    place(result_of(recv, part), operand_of(send, part),
          ir::num_elements(recv.parts[part].shape) * ir::dtype_bytes(recv.dtype));
}

}  // namespace megacpp::collectives
