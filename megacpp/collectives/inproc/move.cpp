// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/move.h"

#include <cstddef>
#include <cstring>

#include "megacpp/collectives/reduce.h"
#include "megacpp/collectives/runs.h"

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

void copy_from_others(const Member& member, size_t part) {
  const Call& call = member.call();
  for (int64_t from = 0; from < member.size(); ++from) {
    const Call* const other = member.calls[static_cast<size_t>(from)];
    if (other == nullptr) continue;
    const Runs runs = runs_between(call, part, {.from = from, .to = member.index, .members = member.size()});
    for (int64_t run = 0; run < runs.count(); ++run)
      place(result_of(call, part) + runs.target_at(run), operand_of(*other, part) + runs.source_at(run),
            runs.run_bytes);
  }
}

// The operand of index `from`, or the term that stands for it, from `run` on.
const std::byte* summand_of(const Member& member, size_t part, const Runs& runs, const Pair& pair, int64_t run) {
  if (const Call* const other = member.calls[static_cast<size_t>(pair.from)]; other != nullptr)
    return operand_of(*other, part) + runs.source_at(run);
  return static_cast<const std::byte*>(member.call().workspace) + term_offset(member.call(), part, pair) +
         runs.target_at(run);
}

// What this member reduces: its piece of a reduce_scatter, its slice of an all_reduce, which it leaves at the slice's
// place.
void reduce_own(const Member& member, size_t part) {
  const Call& call = member.call();
  Pair pair = {.from = 0, .to = member.index, .members = member.size()};
  const Runs runs = runs_between(call, part, pair);
  for (int64_t run = 0; run < runs.count(); ++run) {
    for (pair.from = 0; pair.from < member.size(); ++pair.from)
      member.operands[static_cast<size_t>(pair.from)] = summand_of(member, part, runs, pair, run);
    const int64_t place_in_result = call.kind == Kind::all_reduce ? runs.source_at(run) : runs.target_at(run);
    reduce({.dtype = call.dtype,
            .reduction = call.reduction,
            .operands = member.operands.first(member.calls.size()),
            .count = runs.run_bytes / ir::dtype_bytes(call.dtype),
            .out = result_of(call, part) + place_in_result});
  }
}

void fetch_other_slices(const Member& member, size_t part) {
  const Call& call = member.call();
  const int64_t elements = ir::num_elements(call.parts[part].shape), width = ir::dtype_bytes(call.dtype);
  for (int64_t from = 0; from < member.size(); ++from) {
    const Call* const other = member.calls[static_cast<size_t>(from)];
    if (other == nullptr) continue;
    const Slice slice = slice_of(elements, from, member.size());
    place(result_of(call, part) + slice.first * width, result_of(*other, part) + slice.first * width,
          slice.count * width);
  }
}

}  // namespace

void move_data(const Member& member, int64_t step) {
  for (size_t part = 0; part < member.call().parts.size(); ++part) {
    if (ir::num_elements(member.call().parts[part].shape) == 0) continue;
    switch (member.call().kind) {
      case Kind::all_gather:
      case Kind::all_to_all:
      case Kind::permute:
        copy_from_others(member, part);
        break;
      case Kind::reduce_scatter:
        reduce_own(member, part);
        break;
      case Kind::all_reduce:
        step == 1 ? reduce_own(member, part) : fetch_other_slices(member, part);
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
