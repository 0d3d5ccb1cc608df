// SPDX-License-Identifier: Apache-2.0
// Lists of the buffers of calls, for processes that read them (peer_memory.h). Programs start the same calls in every
// step: the list of a call is told by its address and a hash, and read when either is new. Nothing is allocated for a
// call that was seen before.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "megacpp/machine/collectives/call.h"
#include "megacpp/machine/collectives/peer_memory.h"

namespace megacpp::collectives {

/// How a process tells of a list in its memory.
struct AddressList {
  uint64_t address = 0;  // 0: there is none
  uint64_t hash = 0;     // of what it says
};

/// The lists of this process. One is rewritten in place when its call is started again: whoever read it is done by
/// then.
class PublishedAddresses {
 public:
  /// Of the calls of these members, in their order, the buffers of each part. They are of one movement and start
  /// together.
  AddressList publish(std::span<const Call* const> calls, std::span<const int64_t> members);

 private:
  std::unordered_map<const Call*, std::vector<PartAddress>> lists_;  // by the first call
};

/// The lists of one peer, as they were read.
class ReadAddresses {
 public:
  /// `count`: entries that it has. Valid until the same address is looked up again. PeerGone.
  std::span<const PartAddress> look_up(const Peer& peer, const AddressList& list, size_t count);

 private:
  struct Known {
    uint64_t hash = 0;
    std::vector<PartAddress> entries;
  };
  std::unordered_map<uint64_t, Known> lists_;  // by address
};

}  // namespace megacpp::collectives
