// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for at once and obtained page by page: when it is first written, or all of it by obtain(), which
// says where the machine has too little. A write that the machine has no page for ends the process. In large pages
// where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace megacpp::base {

/// Memory that a machine does not have.
struct MemoryShortage {
  int64_t wanted = 0;  // bytes that were still to be obtained
  int64_t free = 0;    // as the machine said then
};

class ReservedMemory {
 public:
  /// Zeros. std::bad_alloc where the system refuses so much.
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

  /// Obtains all of it, a piece at a time, while `free_bytes` is enough for what is left. Nobody may write meanwhile.
  /// Nothing: it is there.
  std::optional<MemoryShortage> obtain(const std::function<int64_t()>& free_bytes) const;

 private:
  std::span<std::byte> bytes_;
};

}  // namespace megacpp::base
