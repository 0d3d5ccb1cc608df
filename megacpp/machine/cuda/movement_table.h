// SPDX-License-Identifier: Apache-2.0
// Calls of collectives as tables of pieces for the collective kernel (kernels/collective_params.h): one launch each,
// more only where a call has more pieces than a table. The arithmetic of bytes is that of collectives/runs.h, so that
// results are those of every other transport, and sums are added in the order of the group. Needs no device and never
// allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "megacpp/machine/collectives/runs.h"
#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/kernels/collective_params.h"

namespace megacpp::runtime::cuda {

/// Gets each table when it is full, and the last.
using EmitTable = std::function<void(const CollectiveParams& table)>;

/// Blocks of the launch that a table stands for.
uint32_t blocks_of(const CollectiveParams& table);

class TableWriter {
 public:
  struct Options {
    Combine combine = Combine::copy;
    ir::DType dtype = ir::DType::f32;  // of what is combined
  };
  /// `emit` outlives the writer.
  TableWriter(const Options& options, const EmitTable& emit);

  /// The same runs of every source, combined in this order, to every target. A table has room for all addresses of a
  /// piece: at most kMaxAddresses.
  struct Piece {
    std::span<const Address> sources;
    std::span<const Address> targets;
    collectives::Runs runs;
  };
  void add(const Piece& piece);
  /// Emits what is left.
  void finish();

 private:
  bool has_room(const Piece& piece) const;
  uint32_t unit_bytes(const Piece& piece) const;
  uint16_t place_addresses(std::span<const Address> addresses);

  const EmitTable& emit_;
  ir::DType dtype_;
  CollectiveParams table_ = {};
};

/// Members of a group that one launch moves everything for: the most whose addresses fit into a piece.
inline constexpr int64_t kMaxGroupMembers = kMaxAddresses / 2;

/// What one of several launches does for a collective: it writes the results of the members [begin, end). An all-reduce
/// may be in place, so that whoever writes an element must be the one who reads it on all members: there it is the same
/// part of every result, as large as these members are of all.
struct MemberRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Everything that a launch for `writes` moves; all of a collective for all of its members. `calls`: by index in the
/// group, with addresses that the device of the launch reaches. `scratch`: room for two addresses a member.
void tabulate(std::span<const collectives::Call* const> calls, const MemberRange& writes, std::span<Address> scratch,
              const EmitTable& emit);

/// A receive from a send that means the same movement.
void tabulate_message(const collectives::Call& send, const collectives::Call& recv, const EmitTable& emit);

/// All bytes of something dense, as runs.
collectives::Runs whole_run(int64_t bytes);

}  // namespace megacpp::runtime::cuda
