// SPDX-License-Identifier: Apache-2.0
// How far the chips of a process have got with the calls of its groups, in memory that the processes of its host share:
// they look instead of being told, which is sooner than any message. The owner alone writes, others only read.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "megacpp/machine/collectives/communicator.h"
#include "megacpp/machine/collectives/processes/buffer_addresses.h"

namespace megacpp::collectives {

/// One call of a group. Slots are used again, as those of GroupCalls are.
class ProgressFlag {
 public:
  struct Call {
    uint64_t hash = 0;      // of its movement
    AddressList addresses;  // of its buffers
  };

  /// All chips of the process have posted it: they have passed one gate.
  void open(int64_t sequence, const Call& call) {
    call_ = call;
    pass(sequence, 1);
  }
  void pass(int64_t sequence, int64_t gates) { state_.store(sequence * kMostGates + gates, std::memory_order_release); }

  /// Gates of the call with this number; its record is there from the first on, until all processes are done with it.
  int64_t gates(int64_t sequence) const {
    const int64_t state = state_.load(std::memory_order_acquire);
    return state / kMostGates == sequence ? state % kMostGates : 0;
  }
  const Call& call() const { return call_; }

 private:
  static constexpr int64_t kMostGates = 4;

  std::atomic<int64_t> state_;  // zero at first, as all of the memory is
  Call call_;
};

inline constexpr size_t kGroupFlags = 2 * kMaxInFlight;  // of a group

/// What the memory holds.
struct ProgressFlagsLayout {
  static constexpr size_t kGroups = 1024;

  uint64_t token;  // of its owner
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> ids[kGroups];
  ProgressFlag slots[kGroups][kGroupFlags];
};

/// The flags of this process.
class ProgressFlags {
 public:
  /// Null where the kernel has no such memory.
  static std::unique_ptr<ProgressFlags> make(uint64_t token);
  ~ProgressFlags();
  ProgressFlags(const ProgressFlags&) = delete;
  ProgressFlags& operator=(const ProgressFlags&) = delete;

  int file() const { return file_; }
  /// The slots of a new group, kGroupFlags, whose memory is taken from here on; null where there are no more.
  ProgressFlag* add_group(uint64_t id);

 private:
  ProgressFlags(int file, ProgressFlagsLayout* layout) : file_(file), layout_(layout) {}

  const int file_;
  ProgressFlagsLayout* const layout_;
};

/// That of another process.
class PeerFlags {
 public:
  /// Null where it cannot be seen, or is another's.
  static std::shared_ptr<const PeerFlags> open(pid_t pid, int file, uint64_t token);
  ~PeerFlags();
  PeerFlags(const PeerFlags&) = delete;
  PeerFlags& operator=(const PeerFlags&) = delete;

  /// Null while the group is not made there.
  const ProgressFlag* find_group(uint64_t id) const;

 private:
  explicit PeerFlags(const ProgressFlagsLayout* layout) : layout_(layout) {}

  const ProgressFlagsLayout* const layout_;
};

}  // namespace megacpp::collectives
