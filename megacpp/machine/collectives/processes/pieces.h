// SPDX-License-Identifier: Apache-2.0
// The bytes of a call that go from one process to another, as one stream that both ends walk alike: piece by piece,
// each the runs that one member needs of another. What all members of a process need crosses once and is written to
// each of them; of a reduction the operands of all its members may cross as one, their sum. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "megacpp/machine/collectives/call.h"
#include "megacpp/machine/collectives/runs.h"

namespace megacpp::collectives {

/// Where a stream has got to.
struct Cursor {
  int64_t piece = 0;
  int64_t byte = 0;  // of the piece
};

/// Of a group's call, or of a send and its receive (`members` of one, the call alone).
struct Pieces {
  std::span<const Call* const> calls;  // by index; those of this process are there
  std::span<const int64_t> sources;    // indices of the members that send
  std::span<const int64_t> targets;    // indices of the members that receive
  bool is_sent = false;                // by this process; false: received by it
  // Of a group:
  Sums sums = Sums::exact;
  std::span<const Term> terms = {};      // received: by index of the sender
  std::span<const void*> pointers = {};  // sent: room for one a source

  /// Operands come first; behind them, of an all_reduce, the slices that the senders have reduced.
  int64_t operand_pieces() const;
  int64_t all_pieces() const;
};

/// Moves the cursor over pieces without bytes, up to `limit`.
void skip_empty(const Pieces& pieces, Cursor& cursor, int64_t limit);
/// Takes the next bytes of the stream, no piece from `limit` on, as many as there is room for; returns how many.
size_t pack(const Pieces& pieces, Cursor& cursor, int64_t limit, std::span<std::byte> room);
/// Puts the next bytes of the stream where they belong.
void unpack(const Pieces& pieces, Cursor& cursor, std::span<const std::byte> bytes);

}  // namespace megacpp::collectives
