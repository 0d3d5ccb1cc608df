// SPDX-License-Identifier: Apache-2.0
// What a chip keeps in pinned memory of the host, and the copies of its programs between there and the device. Each
// direction has a stream of its own, so that both run at once and beside the chip's kernels; what comes before and
// behind a copy is settled by events, on the device. The host takes no part in a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/handles.h"
#include "megacpp/machine/runtime/chip_device.h"

namespace megacpp::runtime::cuda {

class HostCopies {
 public:
  /// `bytes` of pinned memory, zeroed; copies are ordered with what `stream` does. The context is current here and
  /// where it goes. memory::OutOfMemory, E2005, where the host refuses them.
  HostCopies(const Driver& driver, Stream* stream, int64_t bytes);
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  std::byte* at(int64_t offset) const { return memory_ + offset; }
  bool holds(const std::byte* address) const;

  /// A copy_start, or the copy_done behind one that was prepared before. Creates events: at load. The calls are not run
  /// once this has gone.
  DeviceCall prepare(const BoundNode& bound);

 private:
  DeviceCall prepare_start(const BoundNode& bound);
  Event* new_event();

  const Driver& driver_;
  Stream* stream_;  // of the chip
  size_t bytes_;
  std::byte* memory_ = nullptr;
  OwnedStream to_device_, to_host_;
  std::vector<OwnedEvent> events_;
  std::map<uint32_t, Event*> ended_;  // of copies whose done is to come, by their result in the program
};

}  // namespace megacpp::runtime::cuda
