// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/pieces.h"

#include <algorithm>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/reduce.h"

namespace megacpp::collectives {
namespace {

struct Piece {
  size_t part = 0;
  Pair pair;
  bool is_for_all = false;  // every target needs the same
  bool is_slice = false;    // of a result
  bool is_sum = false;      // of the operands of all sources: `runs` has its bytes, but for their places in an operand
  Runs runs;
};

const Call& local_call(const Pieces& pieces) {
  const int64_t index = (pieces.is_sent ? pieces.sources : pieces.targets).front();
  return *pieces.calls[static_cast<size_t>(index)];
}

bool is_term(const Call& call) { return call.kind == Kind::reduce_scatter || call.kind == Kind::all_reduce; }
bool is_same_for_all(const Call& call) { return call.kind == Kind::all_gather; }

// An operand alone crosses as it is.
bool is_summed(const Pieces& pieces) {
  return pieces.sums == Sums::fast && pieces.sources.size() > 1 && is_term(local_call(pieces));
}

int64_t sources_in_stream(const Pieces& pieces) {
  return is_summed(pieces) ? 1 : static_cast<int64_t>(pieces.sources.size());
}

// In the stream and in its term a number is as long as the type that it is reduced in.
void widen(Runs& runs, ir::DType dtype) {
  const int64_t times = ir::dtype_bytes(sum_dtype(dtype)) / ir::dtype_bytes(dtype);
  runs.run_bytes *= times;
  runs.target.first *= times;
  for (int64_t& stride : runs.target.strides) stride *= times;
}

// What a member reduced, at its place in the results of all.
Piece slice_piece(const Pieces& pieces, int64_t number) {
  const Call& call = local_call(pieces);
  const auto sources = static_cast<int64_t>(pieces.sources.size()), n = static_cast<int64_t>(pieces.calls.size());
  Piece piece = {.part = static_cast<size_t>(number / sources),
                 .pair = {},
                 .is_for_all = true,
                 .is_slice = true,
                 .is_sum = false,
                 .runs = {}};
  piece.pair = {.from = pieces.sources[static_cast<size_t>(number % sources)], .to = pieces.targets[0], .members = n};
  const Slice slice = slice_of(ir::num_elements(call.parts[piece.part].shape), piece.pair.from, n);
  const int64_t width = ir::dtype_bytes(call.dtype);
  piece.runs.run_bytes = slice.count * width;
  piece.runs.source.first = piece.runs.target.first = slice.first * width;
  return piece;
}

Piece piece_at(const Pieces& pieces, int64_t number) {
  const int64_t operands = pieces.operand_pieces();
  if (number >= operands) return slice_piece(pieces, number - operands);
  const Call& call = local_call(pieces);
  const bool for_all = is_same_for_all(call);
  const int64_t sources = sources_in_stream(pieces);
  const int64_t targets = for_all ? 1 : static_cast<int64_t>(pieces.targets.size());
  Piece piece = {.part = static_cast<size_t>(number / (sources * targets)),
                 .pair = {},
                 .is_for_all = for_all,
                 .is_slice = false,
                 .is_sum = is_summed(pieces),
                 .runs = {}};
  piece.pair = {.from = pieces.sources[static_cast<size_t>(number / targets % sources)],
                .to = pieces.targets[static_cast<size_t>(number % targets)],
                .members = static_cast<int64_t>(pieces.calls.size())};
  piece.runs = runs_between(call, piece.part, piece.pair);
  if (piece.is_sum) widen(piece.runs, call.dtype);
  return piece;
}

const std::byte* source_of(const Pieces& pieces, const Piece& piece) {
  const Part& part = pieces.calls[static_cast<size_t>(piece.pair.from)]->parts[piece.part];
  return static_cast<const std::byte*>(piece.is_slice ? part.out : part.in);
}

std::byte* target_of(const Pieces& pieces, const Piece& piece, const Call& call) {
  if (!is_term(call) || piece.is_slice) return static_cast<std::byte*>(call.parts[piece.part].out);
  const Term& term = pieces.terms[static_cast<size_t>(piece.pair.from)];
  return static_cast<std::byte*>(call.workspace) + term_offset(call, piece.part, term.slot, piece.pair.members);
}

// Calls copy(place of run, byte within it, bytes) for bytes [first, first + bytes) of the piece.
template <typename Copy>
void for_runs(const Runs& runs, int64_t first, int64_t bytes, const Copy& copy) {
  for (int64_t done = 0; done < bytes;) {
    const int64_t run = (first + done) / runs.run_bytes, within = (first + done) % runs.run_bytes;
    const int64_t length = std::min(runs.run_bytes - within, bytes - done);
    copy(run, within, length);
    done += length;
  }
}

// Bytes of the piece from `first` on.
void take(const Pieces& pieces, const Piece& piece, int64_t first, std::span<std::byte> room) {
  const std::byte* const source = source_of(pieces, piece);
  std::byte* to = room.data();
  for_runs(piece.runs, first, static_cast<int64_t>(room.size()), [&](int64_t run, int64_t within, int64_t length) {
    std::memcpy(to, source + piece.runs.source_at(run) + within, static_cast<size_t>(length));
    to += length;
  });
}

// The same of a sum, which is made here: whole numbers.
void take_sum(const Pieces& pieces, const Piece& piece, int64_t first, std::span<std::byte> room) {
  const Call& call = local_call(pieces);
  const int64_t width = ir::dtype_bytes(call.dtype), sum_width = ir::dtype_bytes(sum_dtype(call.dtype));
  ReduceArgs args;
  args.dtype = call.dtype;
  args.reduction = call.reduction;
  args.operands = pieces.pointers.first(pieces.sources.size());
  args.is_partial = true;
  std::byte* to = room.data();
  for_runs(piece.runs, first, static_cast<int64_t>(room.size()), [&](int64_t run, int64_t within, int64_t length) {
    for (size_t k = 0; k < pieces.sources.size(); ++k) {
      const Call& source = *pieces.calls[static_cast<size_t>(pieces.sources[k])];
      pieces.pointers[k] = static_cast<const std::byte*>(source.parts[piece.part].in) + piece.runs.source_at(run) +
                           within / sum_width * width;
    }
    args.count = length / sum_width;
    args.out = to;
    reduce(args);
    to += length;
  });
}

// How many bytes of the piece there is room for; of a sum whole numbers.
size_t bytes_to_take(const Pieces& pieces, const Piece& piece, const Cursor& cursor, size_t room) {
  const auto bytes = std::min(static_cast<size_t>(piece.runs.bytes() - cursor.byte), room);
  return piece.is_sum ? bytes - bytes % static_cast<size_t>(ir::dtype_bytes(sum_dtype(local_call(pieces).dtype)))
                      : bytes;
}

struct Arrived {
  int64_t first = 0;  // byte of the piece
  std::span<const std::byte> bytes;
};

void put(const Piece& piece, std::byte* target, const Arrived& arrived) {
  const std::byte* from = arrived.bytes.data();
  const auto count = static_cast<int64_t>(arrived.bytes.size());
  for_runs(piece.runs, arrived.first, count, [&](int64_t run, int64_t within, int64_t length) {
    std::memcpy(target + piece.runs.target_at(run) + within, from, static_cast<size_t>(length));
    from += length;
  });
}

void advance_by(Cursor& cursor, const Piece& piece, int64_t bytes) {
  cursor.byte += bytes;
  if (cursor.byte < piece.runs.bytes()) return;
  cursor = {.piece = cursor.piece + 1, .byte = 0};
}

}  // namespace

int64_t Pieces::operand_pieces() const {
  const Call& call = local_call(*this);
  const auto pairs = sources_in_stream(*this) * (is_same_for_all(call) ? 1 : static_cast<int64_t>(targets.size()));
  return static_cast<int64_t>(call.parts.size()) * pairs;
}

int64_t Pieces::all_pieces() const {
  const Call& call = local_call(*this);
  const size_t slices = call.kind == Kind::all_reduce ? call.parts.size() * sources.size() : 0;
  return operand_pieces() + static_cast<int64_t>(slices);
}

void skip_empty(const Pieces& pieces, Cursor& cursor, int64_t limit) {
  while (cursor.piece < limit && piece_at(pieces, cursor.piece).runs.bytes() == 0)
    cursor = {.piece = cursor.piece + 1, .byte = 0};
}

size_t pack(const Pieces& pieces, Cursor& cursor, int64_t limit, std::span<std::byte> room) {
  size_t packed = 0;
  for (skip_empty(pieces, cursor, limit); cursor.piece < limit && packed < room.size();
       skip_empty(pieces, cursor, limit)) {
    const Piece piece = piece_at(pieces, cursor.piece);
    const size_t bytes = bytes_to_take(pieces, piece, cursor, room.size() - packed);
    if (bytes == 0) break;
    (piece.is_sum ? take_sum : take)(pieces, piece, cursor.byte, room.subspan(packed, bytes));
    packed += bytes;
    advance_by(cursor, piece, static_cast<int64_t>(bytes));
  }
  return packed;
}

void unpack(const Pieces& pieces, Cursor& cursor, std::span<const std::byte> bytes) {
  const int64_t end = pieces.all_pieces();
  for (skip_empty(pieces, cursor, end); !bytes.empty(); skip_empty(pieces, cursor, end)) {
    MEGACPP_CHECK(cursor.piece < end) << "more bytes than the call has: " << to_string(local_call(pieces));
    const Piece piece = piece_at(pieces, cursor.piece);
    const auto count =
        static_cast<size_t>(std::min(piece.runs.bytes() - cursor.byte, static_cast<int64_t>(bytes.size())));
    const Arrived arrived = {.first = cursor.byte, .bytes = bytes.first(count)};
    const auto put_to = [&](int64_t to) {
      put(piece, target_of(pieces, piece, *pieces.calls[static_cast<size_t>(to)]), arrived);
    };
    if (piece.is_for_all)
      std::ranges::for_each(pieces.targets, put_to);
    else
      put_to(piece.pair.to);
    bytes = bytes.subspan(count);
    advance_by(cursor, piece, static_cast<int64_t>(count));
  }
}

}  // namespace megacpp::collectives
