// SPDX-License-Identifier: Apache-2.0
// What a member of a collective needs of another member's operand, as equal runs of bytes at regular places: the same
// for transports that copy between buffers and for those that send. Arithmetic on shapes alone; never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "megacpp/machine/collectives/call.h"

namespace megacpp::collectives {

/// Runs in the order of three nested loops, the last the fastest.
struct Runs {
  struct Side {
    int64_t first = 0;                           // byte at which the first run starts
    std::array<int64_t, 3> strides = {0, 0, 0};  // bytes, by loop
  };

  std::array<int64_t, 3> counts = {1, 1, 1};
  int64_t run_bytes = 0;
  Side source;  // in the operand
  Side target;  // in the result; of a reduction in the term, which has nothing else

  int64_t count() const { return counts[0] * counts[1] * counts[2]; }
  int64_t bytes() const { return count() * run_bytes; }
  int64_t source_at(int64_t run) const { return at(source, run); }
  int64_t target_at(int64_t run) const { return at(target, run); }

 private:
  int64_t at(const Side& side, int64_t run) const {
    const int64_t last = run % counts[2], middle = run / counts[2] % counts[1], first = run / counts[2] / counts[1];
    return side.first + first * side.strides[0] + middle * side.strides[1] + last * side.strides[2];
  }
};

/// What index `to` needs of the operand of index `from`; no bytes where it needs nothing.
struct Pair {
  int64_t from = 0;
  int64_t to = 0;
  int64_t members = 1;
};
Runs runs_between(const Call& call, size_t part, const Pair& pair);

/// Elements [first, first + count) of an all-reduce, which one member reduces for all: whole cache lines but the last.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;
};
Slice slice_of(int64_t elements, int64_t index, int64_t members);

/// In which order what members hold is added.
enum class Sums : uint8_t {
  exact,  // that of the group: the same bits however its members are dealt to processes
  fast,   // members of a process first, of which only the sum crosses to others
};

/// A member that reduces what others send keeps terms, side by side for each part, before it adds them. There is a slot
/// for each member. Bytes of a slot, of all slots of a call, and where a slot begins.
int64_t term_bytes(const Call& call, size_t part, int64_t members);
int64_t terms_bytes(const Call& call, int64_t members);
int64_t term_offset(const Call& call, size_t part, int64_t slot, int64_t members);

/// What stands for the operand of a member of another process.
struct Term {
  static constexpr int64_t kNoSlot = -1;  // what another member's term is the sum of

  int64_t slot = kNoSlot;
  bool is_sum = false;  // of all members of its process, a partial reduction (reduce.h); it may take their slots
};

}  // namespace megacpp::collectives
