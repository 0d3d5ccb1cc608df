// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/pieces.h"

#include <algorithm>
#include <cstring>

#include "megacpp/base/error.h"

namespace megacpp::collectives {
namespace {

struct Piece {
  size_t part = 0;
  Pair pair;
  bool is_for_all = false;  // every target needs the same
  bool is_slice = false;    // of a result
  Runs runs;
};

const Call& local_call(const Pieces& pieces) {
  const int64_t index = (pieces.is_sent ? pieces.sources : pieces.targets).front();
  return *pieces.calls[static_cast<size_t>(index)];
}

bool is_term(const Call& call) { return call.kind == Kind::reduce_scatter || call.kind == Kind::all_reduce; }
bool is_same_for_all(const Call& call) { return call.kind == Kind::all_gather; }

// What a member reduced, at its place in the results of all.
Piece slice_piece(const Pieces& pieces, int64_t number) {
  const Call& call = local_call(pieces);
  const auto sources = static_cast<int64_t>(pieces.sources.size()), n = static_cast<int64_t>(pieces.calls.size());
  Piece piece = {
      .part = static_cast<size_t>(number / sources), .pair = {}, .is_for_all = true, .is_slice = true, .runs = {}};
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
  const auto sources = static_cast<int64_t>(pieces.sources.size());
  const int64_t targets = for_all ? 1 : static_cast<int64_t>(pieces.targets.size());
  Piece piece = {.part = static_cast<size_t>(number / (sources * targets)),
                 .pair = {},
                 .is_for_all = for_all,
                 .is_slice = false,
                 .runs = {}};
  piece.pair = {.from = pieces.sources[static_cast<size_t>(number / targets % sources)],
                .to = pieces.targets[static_cast<size_t>(number % targets)],
                .members = static_cast<int64_t>(pieces.calls.size())};
  piece.runs = runs_between(call, piece.part, piece.pair);
  return piece;
}

const std::byte* source_of(const Pieces& pieces, const Piece& piece) {
  const Part& part = pieces.calls[static_cast<size_t>(piece.pair.from)]->parts[piece.part];
  return static_cast<const std::byte*>(piece.is_slice ? part.out : part.in);
}

std::byte* target_of(const Piece& piece, const Call& call) {
  if (is_term(call) && !piece.is_slice)
    return static_cast<std::byte*>(call.workspace) + term_offset(call, piece.part, piece.pair);
  return static_cast<std::byte*>(call.parts[piece.part].out);
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

void put(const Piece& piece, const Call& call, int64_t first, std::span<const std::byte> bytes) {
  std::byte* const target = target_of(piece, call);
  const std::byte* from = bytes.data();
  for_runs(piece.runs, first, static_cast<int64_t>(bytes.size()), [&](int64_t run, int64_t within, int64_t length) {
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
  const size_t pairs = sources.size() * (is_same_for_all(call) ? 1 : targets.size());
  return static_cast<int64_t>(call.parts.size() * pairs);
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
    const std::byte* const source = source_of(pieces, piece);
    const int64_t bytes =
        std::min(piece.runs.bytes() - cursor.byte, static_cast<int64_t>(room.size()) - static_cast<int64_t>(packed));
    for_runs(piece.runs, cursor.byte, bytes, [&](int64_t run, int64_t within, int64_t length) {
      std::memcpy(room.data() + packed, source + piece.runs.source_at(run) + within, static_cast<size_t>(length));
      packed += static_cast<size_t>(length);
    });
    advance_by(cursor, piece, bytes);
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
    if (piece.is_for_all) {
      for (const int64_t to : pieces.targets)
        put(piece, *pieces.calls[static_cast<size_t>(to)], cursor.byte, bytes.first(count));
    } else {
      put(piece, *pieces.calls[static_cast<size_t>(piece.pair.to)], cursor.byte, bytes.first(count));
    }
    bytes = bytes.subspan(count);
    advance_by(cursor, piece, static_cast<int64_t>(count));
  }
}

}  // namespace megacpp::collectives
