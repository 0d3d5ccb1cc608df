// SPDX-License-Identifier: Apache-2.0
// A tensor on a device, freed with the object. Bytes on the host are dense and row-major, whatever the device's layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/machine/xla/pjrt/client.h"
#include "megacpp/machine/xla/pjrt/handle.h"

namespace megacpp::runtime::pjrt {

/// How long a plugin reads host bytes that it is given.
enum class HostBytes : uint8_t {
  awaited,  // until they are on the device: the host waits for that
  copied,   // during the call only: the plugin keeps a copy, and nobody waits. For small tensors in a running loop.
};

class Buffer {
 public:
  /// Copies host bytes to a device. They are free for reuse when this returns.
  Buffer(const Client& client, size_t device, const ir::TensorType& type, std::span<const std::byte> bytes,
         HostBytes host = HostBytes::awaited);
  /// Takes over what a program made.
  explicit Buffer(Handle buffer) : buffer_(std::move(buffer)) {}

  ir::TensorType type() const;
  int64_t bytes_on_device() const;  // with the device's padding
  /// Whether the buffer was donated to a program: nothing can be read from it any more.
  bool is_deleted() const;
  /// Waits until the tensor is computed; throws when computing it failed.
  void await() const;
  /// Waits for the tensor and copies it; `bytes` has exactly its size.
  void to_host(std::span<std::byte> bytes) const;

  const Handle& handle() const { return buffer_; }

 private:
  Handle buffer_;
};

}  // namespace megacpp::runtime::pjrt
