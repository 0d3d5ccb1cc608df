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

// Operands, and the terms that stand for them, from `run` on, in the order of the group; sums of other processes come
// last.
ReduceArgs summands_of(const Member& member, size_t part, const Runs& runs, int64_t run) {
  const Call& call = member.call();
  const int64_t width = ir::dtype_bytes(call.dtype), sum_width = ir::dtype_bytes(sum_dtype(call.dtype));
  const std::span<const void*> operands = member.pointers.first(member.calls.size());
  const std::span<const void*> partials = member.pointers.subspan(member.calls.size(), member.calls.size());
  size_t operand_count = 0, partial_count = 0;
  for (size_t from = 0; from < member.calls.size(); ++from) {
    if (const Call* const other = member.calls[from]; other != nullptr) {
      operands[operand_count++] = operand_of(*other, part) + runs.source_at(run);
      continue;
    }
    const Term& term = member.terms[from];
    if (term.slot == Term::kNoSlot) continue;
    const std::byte* const begin =
        static_cast<const std::byte*>(call.workspace) + term_offset(call, part, term.slot, member.size());
    if (term.is_sum)
      partials[partial_count++] = begin + runs.target_at(run) / width * sum_width;
    else
      operands[operand_count++] = begin + runs.target_at(run);
  }
  ReduceArgs args;
  args.dtype = call.dtype;
  args.reduction = call.reduction;
  args.operands = operands.first(operand_count);
  args.partials = partials.first(partial_count);
  args.count = runs.run_bytes / width;
  return args;
}

// What this member reduces: its piece of a reduce_scatter, its slice of an all_reduce, which it leaves at the slice's
// place.
void reduce_own(const Member& member, size_t part) {
  const Call& call = member.call();
  const Runs runs = runs_between(call, part, {.from = 0, .to = member.index, .members = member.size()});
  for (int64_t run = 0; run < runs.count(); ++run) {
    ReduceArgs args = summands_of(member, part, runs, run);
    args.out = result_of(call, part) + (call.kind == Kind::all_reduce ? runs.source_at(run) : runs.target_at(run));
    reduce(args);
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
