// SPDX-License-Identifier: Apache-2.0
// Streams and events of the driver with an owner. They are made on the GPU whose context is current, and go while the
// context of any GPU is.
#pragma once

#include <utility>

#include "megacpp/machine/cuda/driver.h"

namespace megacpp::runtime::cuda {

class OwnedStream {
 public:
  explicit OwnedStream(const Driver& driver) : driver_(&driver) {
    constexpr unsigned kNonBlocking = 1;  // beside the null stream
    driver.stream_create(&stream_, kNonBlocking);
  }
  ~OwnedStream() {
    if (stream_ != nullptr) driver_->stream_destroy.attempt(stream_);
  }
  OwnedStream(OwnedStream&& other) noexcept : driver_(other.driver_), stream_(std::exchange(other.stream_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&&) = delete;

  Stream* get() const { return stream_; }

 private:
  const Driver* driver_;
  Stream* stream_ = nullptr;
};

/// Without a time, and a host that waits for it sleeps.
class OwnedEvent {
 public:
  explicit OwnedEvent(const Driver& driver) : driver_(&driver) {
    constexpr unsigned kBlockingSync = 1, kDisableTiming = 2;
    driver.event_create(&event_, kBlockingSync | kDisableTiming);
  }
  ~OwnedEvent() {
    if (event_ != nullptr) driver_->event_destroy.attempt(event_);
  }
  OwnedEvent(OwnedEvent&& other) noexcept : driver_(other.driver_), event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&&) = delete;

  Event* get() const { return event_; }

 private:
  const Driver* driver_;
  Event* event_ = nullptr;
};

}  // namespace megacpp::runtime::cuda
