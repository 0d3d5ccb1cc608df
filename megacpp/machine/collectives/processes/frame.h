// SPDX-License-Identifier: Apache-2.0
// What processes say to each other: a header and, of some kinds, bytes behind it. Nothing is sent that the other side
// has no place for: tensors follow only on `arrived` or `accept`, so that a frame is dealt with when it comes, and no
// frame waits behind another. Processes that read each other's memory send no tensors, and say nothing of their
// collectives (progress_flags.h).
#pragma once

#include <cstdint>

#include "megacpp/machine/collectives/processes/buffer_addresses.h"

namespace megacpp::collectives {

enum class FrameKind : uint32_t {
  arrived,     // all members of the process have posted a call: its buffers may be sent to
  data,        // the next bytes of a call's stream from this process to that
  offer,       // a chip has started a send
  accept,      // a receive has found it
  message,     // the next bytes of a send
  taken,       // the buffers of a send have been read
  what_call,   // the sender has another movement there: which is yours?
  other_call,  // text: the answer
  who_waits,   // which of your chips does this call wait for?
  waits,       // text: the answer
  gather,      // text: of an agreement
  failed,      // text: a chip here has failed; to the arbiter
  is_over,     // text: the failure that counts; from the arbiter
};

struct FrameHeader {
  FrameKind kind = FrameKind::arrived;
  uint32_t bytes = 0;  // behind the header
  uint64_t total = 0;  // of a text: bytes of all its frames
  uint64_t hash = 0;   // of the movement
  // A call of a group, its id and sequence; of messages the chips, tickets and tag; of a failure its chip.
  uint64_t group = 0;
  int64_t sequence = 0;
  int64_t from = 0;
  int64_t to = 0;
  int64_t number = 0;  // of a question and its answer; of `gather`: the round; of `accept`: the receive's ticket
  AddressList addresses = {};  // of `offer`: the buffers of the sender
};

}  // namespace megacpp::collectives
