// SPDX-License-Identifier: Apache-2.0
// One chip's memory: exactly the planned bytes, zeroed, followed by a page that faults when touched, so a kernel that
// runs over the end of the plan stops at once instead of corrupting something.
#pragma once

#include <cstddef>
#include <cstdint>

namespace megacpp::runtime::cpu {

inline constexpr int64_t kAlignment = 64;  // bytes: every tensor begins at a cache line and has whole ones to itself
inline int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Arena {
 public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* at(int64_t offset) const { return begin_ + offset; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;  // placed so that the last planned byte touches the guard page
  int64_t bytes_ = 0;
};

}  // namespace megacpp::runtime::cpu
