// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/inproc/move.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "megacpp/machine/collectives/reduce.h"

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

// Calls add(reads, index, part) for every part of every member in another process, and makes what was added.
template <typename Add>
void read_from_peers(const Member& member, const Add& add) {
  for (size_t from = 0; from < member.remotes.size(); ++from) {
    const Remote& remote = member.remotes[from];
    if (remote.peer == nullptr) continue;
    PeerReads reads(*remote.peer);
    for (size_t part = 0; part < remote.parts.size(); ++part) add(reads, static_cast<int64_t>(from), part);
    reads.flush();
  }
}

void copy_from_peers(const Member& member) {
  const Call& call = member.call();
  read_from_peers(member, [&](PeerReads& reads, int64_t from, size_t part) {
    const Runs runs = runs_between(call, part, {.from = from, .to = member.index, .members = member.size()});
    for (int64_t run = 0; run < runs.count(); ++run)
      reads.add(result_of(call, part) + runs.target_at(run),
                member.remotes[static_cast<size_t>(from)].parts[part].in + static_cast<uint64_t>(runs.source_at(run)),
                runs.run_bytes);
  });
}

// Some bytes of a run that this member reduces.
struct Block {
  size_t part = 0;
  Runs runs;
  int64_t run = 0;
  int64_t first = 0;  // byte of the run
  int64_t bytes = 0;
};

std::byte* term_of(const Member& member, const Block& block, const Term& term) {
  return static_cast<std::byte*>(member.call().workspace) +
         term_offset(member.call(), block.part, term.slot, member.size());
}

// Operands, and the terms that stand for them, in the order of the group; sums of other processes come last.
ReduceArgs summands_of(const Member& member, const Block& block) {
  const Call& call = member.call();
  const int64_t width = ir::dtype_bytes(call.dtype), sum_width = ir::dtype_bytes(sum_dtype(call.dtype));
  const std::span<const void*> operands = member.pointers.first(member.calls.size());
  const std::span<const void*> partials = member.pointers.subspan(member.calls.size(), member.calls.size());
  const int64_t source = block.runs.source_at(block.run) + block.first;
  const int64_t target = block.runs.target_at(block.run) + block.first;
  size_t operand_count = 0, partial_count = 0;
  for (size_t from = 0; from < member.calls.size(); ++from) {
    if (const Call* const other = member.calls[from]; other != nullptr) {
      operands[operand_count++] = operand_of(*other, block.part) + source;
      continue;
    }
    const Term& term = member.terms[from];
    if (term.slot == Term::kNoSlot) continue;
    const std::byte* const begin = term_of(member, block, term);
    if (term.is_sum)
      partials[partial_count++] = begin + target / width * sum_width;
    else
      operands[operand_count++] = begin + target;
  }
  ReduceArgs args;
  args.dtype = call.dtype;
  args.reduction = call.reduction;
  args.operands = operands.first(operand_count);
  args.partials = partials.first(partial_count);
  args.count = block.bytes / width;
  args.out = result_of(call, block.part) + (call.kind == Kind::all_reduce ? source : target);
  return args;
}

void reduce_blocks(const Member& member, std::span<const Block> blocks) {
  if (blocks.empty()) return;
  for (size_t from = 0; from < member.remotes.size(); ++from) {
    const Remote& remote = member.remotes[from];
    if (remote.peer == nullptr) continue;
    PeerReads reads(*remote.peer);
    for (const Block& block : blocks)
      reads.add(term_of(member, block, member.terms[from]) + block.runs.target_at(block.run) + block.first,
                remote.parts[block.part].in + static_cast<uint64_t>(block.runs.source_at(block.run) + block.first),
                block.bytes);
    reads.flush();
  }
  for (const Block& block : blocks) reduce(summands_of(member, block));
}

// What this member reduces: its piece of a reduce_scatter, its slice of an all_reduce, which it leaves at the slice's
// place. What is read from other processes is reduced while it is in the cache, and short runs are read together.
void reduce_own(const Member& member) {
  constexpr int64_t kBlockBytes = int64_t{64} << 10, kBytesAtOnce = kBlockBytes;
  const Call& call = member.call();
  std::array<Block, 32> blocks;
  size_t count = 0;
  int64_t bytes = 0;
  for (size_t part = 0; part < call.parts.size(); ++part) {
    const Runs runs = runs_between(call, part, {.from = 0, .to = member.index, .members = member.size()});
    for (int64_t run = 0; run < runs.count(); ++run) {
      for (int64_t first = 0; first < runs.run_bytes; first += kBlockBytes) {
        const int64_t length = std::min(kBlockBytes, runs.run_bytes - first);
        blocks[count++] = {.part = part, .runs = runs, .run = run, .first = first, .bytes = length};
        bytes += length;
        if (count < blocks.size() && bytes < kBytesAtOnce) continue;
        reduce_blocks(member, std::span(blocks).first(count));
        count = 0;
        bytes = 0;
      }
    }
  }
  reduce_blocks(member, std::span(blocks).first(count));
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

// The same of members in other processes.
void fetch_slices_of_peers(const Member& member) {
  const Call& call = member.call();
  const int64_t width = ir::dtype_bytes(call.dtype);
  read_from_peers(member, [&](PeerReads& reads, int64_t from, size_t part) {
    const Slice slice = slice_of(ir::num_elements(call.parts[part].shape), from, member.size());
    reads.add(result_of(call, part) + slice.first * width,
              member.remotes[static_cast<size_t>(from)].parts[part].out + static_cast<uint64_t>(slice.first * width),
              slice.count * width);
  });
}

// Calls copy(member, part) for every part that is not empty.
template <typename Copy>
void for_parts(const Member& member, const Copy& copy) {
  for (size_t part = 0; part < member.call().parts.size(); ++part)
    if (ir::num_elements(member.call().parts[part].shape) > 0) copy(member, part);
}

}  // namespace

void move_data(const Member& member, int64_t step) {
  switch (member.call().kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::permute:
      for_parts(member, copy_from_others);
      return copy_from_peers(member);
    case Kind::reduce_scatter:
      return reduce_own(member);
    case Kind::all_reduce:
      if (step == 1) return reduce_own(member);
      for_parts(member, fetch_other_slices);
      return fetch_slices_of_peers(member);
    case Kind::send:
    case Kind::recv:
      return;  // no groups: receive()
  }
}

void receive(const Call& send, const Call& recv) {
  for (size_t part = 0; part < recv.parts.size(); ++part)
    place(result_of(recv, part), operand_of(send, part),
          ir::num_elements(recv.parts[part].shape) * ir::dtype_bytes(recv.dtype));
}

void receive(const Remote& send, const Call& recv) {
  PeerReads reads(*send.peer);
  for (size_t part = 0; part < recv.parts.size(); ++part)
    reads.add(result_of(recv, part), send.parts[part].in,
              ir::num_elements(recv.parts[part].shape) * ir::dtype_bytes(recv.dtype));
  reads.flush();
}

}  // namespace megacpp::collectives
