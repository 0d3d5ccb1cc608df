// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for at once and obtained page by page when it is first written: what is needed late in a run, or
// never, costs its start nothing. In large pages where the system has them.
#pragma once

#include <cstddef>
#include <span>

namespace megacpp::base {

class ReservedMemory {
 public:
  /// Zeros. std::bad_alloc where the system refuses so much.
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace megacpp::base
