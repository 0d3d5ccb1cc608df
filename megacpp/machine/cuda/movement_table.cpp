// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/movement_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

using collectives::Call;
using collectives::Kind;
using collectives::Runs;

constexpr int64_t kWideBytes = 16;  // that a thread moves at once where everything is aligned to it

Address pointer_address(const void* data) { return reinterpret_cast<Address>(data); }

CollectiveDType collective_dtype(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  MEGACPP_CHECK(type.device_code) << "no code of the device sums " << type.name;
  return static_cast<CollectiveDType>(*type.device_code);
}

TableWriter::Options writer_options(const Call& call) {
  const bool reduces = call.kind == Kind::reduce_scatter || call.kind == Kind::all_reduce;
  if (!reduces) return {.combine = Combine::copy, .dtype = call.dtype};
  return {.combine = call.reduction == collectives::Reduction::sum ? Combine::sum : Combine::max, .dtype = call.dtype};
}

// The bits in which one of the numbers that must be multiples of a unit is none.
uint64_t odd_bits(const TableWriter::Piece& piece) {
  const Runs& runs = piece.runs;
  uint64_t bits = static_cast<uint64_t>(runs.run_bytes | runs.source.first | runs.target.first);
  for (size_t loop = 0; loop < runs.counts.size(); ++loop)
    if (runs.counts[loop] > 1) bits |= static_cast<uint64_t>(runs.source.strides[loop] | runs.target.strides[loop]);
  for (const Address address : piece.sources) bits |= address;
  for (const Address address : piece.targets) bits |= address;
  return bits;
}

uint32_t count32(int64_t count) {
  MEGACPP_CHECK(count >= 0 && count <= std::numeric_limits<uint32_t>::max()) << count << " runs in one loop";
  return static_cast<uint32_t>(count);
}

}  // namespace

collectives::Runs whole_run(int64_t bytes) { return {.run_bytes = bytes, .source = {}, .target = {}}; }

uint32_t blocks_of(const CollectiveParams& table) {
  if (table.piece_count == 0) return 0;
  const CollectivePiece& last = table.pieces[table.piece_count - 1];
  return last.first_block + static_cast<uint32_t>((last.units + kUnitsPerBlock - 1) / kUnitsPerBlock);
}

TableWriter::TableWriter(const Options& options, const EmitTable& emit) : emit_(emit), dtype_(options.dtype) {
  table_.combine = options.combine;
  table_.dtype = collective_dtype(options.dtype);
}

bool TableWriter::has_room(const Piece& piece) const {
  return table_.piece_count < kMaxPieces &&
         table_.address_count + piece.sources.size() + piece.targets.size() <= kMaxAddresses;
}

uint32_t TableWriter::unit_bytes(const Piece& piece) const {
  const uint64_t odd = odd_bits(piece);
  if (odd % kWideBytes == 0) return kWideBytes;
  if (table_.combine != Combine::copy) return static_cast<uint32_t>(ir::dtype_bytes(dtype_));
  return uint32_t{1} << std::countr_zero(odd);
}

// Parts have one list of operands and one of results, which their pieces share.
uint16_t TableWriter::place_addresses(std::span<const Address> addresses) {
  Address* const begin = table_.addresses;
  Address* const end = begin + table_.address_count;
  const Address* const known = std::search(begin, end, addresses.begin(), addresses.end());
  if (known != end) return static_cast<uint16_t>(known - begin);
  std::ranges::copy(addresses, end);
  table_.address_count += static_cast<uint32_t>(addresses.size());
  return static_cast<uint16_t>(end - begin);
}

void TableWriter::add(const Piece& piece) {
  const Runs& runs = piece.runs;
  if (runs.bytes() == 0) return;
  MEGACPP_CHECK(piece.sources.size() + piece.targets.size() <= kMaxAddresses)
      << piece.sources.size() << " sources and " << piece.targets.size() << " targets in one piece";
  if (!has_room(piece)) finish();
  const uint32_t unit = unit_bytes(piece);
  CollectivePiece entry = {};
  entry.unit_bytes = unit;
  entry.units_of_run = runs.run_bytes / unit;
  entry.units = entry.units_of_run * runs.count();
  entry.middle = count32(runs.counts[1]);
  entry.last = count32(runs.counts[2]);
  entry.source_first = runs.source.first;
  entry.target_first = runs.target.first;
  std::ranges::copy(runs.source.strides, entry.source_stride);
  std::ranges::copy(runs.target.strides, entry.target_stride);
  entry.sources = place_addresses(piece.sources);
  entry.source_count = static_cast<uint16_t>(piece.sources.size());
  entry.targets = place_addresses(piece.targets);
  entry.target_count = static_cast<uint16_t>(piece.targets.size());
  entry.first_block = blocks_of(table_);
  table_.pieces[table_.piece_count++] = entry;
}

void TableWriter::finish() {
  if (table_.piece_count == 0) return;
  emit_(table_);
  CollectiveParams next = {};
  next.combine = table_.combine;
  next.dtype = table_.dtype;
  table_ = next;
}

namespace {

// One part of a collective, on all members.
struct PartOfAll {
  const Call& call;
  size_t part;
  std::span<const Address> operands;  // by index
  std::span<const Address> results;
  MemberRange writes;  // of the results, by index

  int64_t members() const { return static_cast<int64_t>(operands.size()); }
  Runs runs(int64_t from, int64_t to) const {
    return collectives::runs_between(call, part, {.from = from, .to = to, .members = members()});
  }
  std::span<const Address> operand(int64_t index) const { return operands.subspan(static_cast<size_t>(index), 1); }
  std::span<const Address> result(int64_t index) const { return results.subspan(static_cast<size_t>(index), 1); }
  std::span<const Address> written_results() const {
    return results.subspan(static_cast<size_t>(writes.begin), static_cast<size_t>(writes.end - writes.begin));
  }
};

// The bytes of an all-reduce that one of its launches adds up. They begin and end where threads may move wide units.
Runs reduced_run(const PartOfAll& all) {
  const int64_t bytes = ir::num_elements(all.call.parts[all.part].shape) * ir::dtype_bytes(all.call.dtype);
  const auto border = [&](int64_t member) {
    return member == all.members() ? bytes : bytes / all.members() * member / kWideBytes * kWideBytes;
  };
  const int64_t begin = border(all.writes.begin);
  Runs runs = whole_run(border(all.writes.end) - begin);
  runs.source.first = runs.target.first = begin;
  return runs;
}

// An operand is read once and written to every result; a piece of a sum is read on all members by one thread, which is
// also why sums in place need no second step.
void add_part(TableWriter& table, const PartOfAll& all) {
  const int64_t n = all.members();
  switch (all.call.kind) {
    case Kind::all_gather:
      for (int64_t from = 0; from < n; ++from)
        table.add({.sources = all.operand(from), .targets = all.written_results(), .runs = all.runs(from, 0)});
      return;
    case Kind::reduce_scatter:
      for (int64_t to = all.writes.begin; to < all.writes.end; ++to)
        table.add({.sources = all.operands, .targets = all.result(to), .runs = all.runs(0, to)});
      return;
    case Kind::all_reduce:
      table.add({.sources = all.operands, .targets = all.results, .runs = reduced_run(all)});
      return;
    case Kind::all_to_all:
    case Kind::permute:
      for (int64_t from = 0; from < n; ++from)
        for (int64_t to = all.writes.begin; to < all.writes.end; ++to)
          table.add({.sources = all.operand(from), .targets = all.result(to), .runs = all.runs(from, to)});
      return;
    case Kind::send:
    case Kind::recv:
      return;  // no groups: tabulate_message()
  }
}

}  // namespace

void tabulate(std::span<const Call* const> calls, const MemberRange& writes, std::span<Address> scratch,
              const EmitTable& emit) {
  const Call& call = *calls.front();
  const size_t n = calls.size();
  MEGACPP_CHECK(scratch.size() >= 2 * n) << "room for " << scratch.size() << " addresses of " << n << " members";
  TableWriter table(writer_options(call), emit);
  for (size_t part = 0; part < call.parts.size(); ++part) {
    if (ir::num_elements(call.parts[part].shape) == 0) continue;
    for (size_t member = 0; member < n; ++member) {
      scratch[member] = pointer_address(calls[member]->parts[part].in);
      scratch[n + member] = pointer_address(calls[member]->parts[part].out);
    }
    add_part(
        table,
        {.call = call, .part = part, .operands = scratch.first(n), .results = scratch.subspan(n, n), .writes = writes});
  }
  table.finish();
}

void tabulate_message(const Call& send, const Call& recv, const EmitTable& emit) {
  TableWriter table({.combine = Combine::copy, .dtype = recv.dtype}, emit);
  for (size_t part = 0; part < recv.parts.size(); ++part) {
    const std::array<Address, 1> from = {pointer_address(send.parts[part].in)};
    const std::array<Address, 1> to = {pointer_address(recv.parts[part].out)};
    table.add({.sources = from, .targets = to, .runs = collectives::runs_between(recv, part, {})});
  }
  table.finish();
}

}  // namespace megacpp::runtime::cuda
