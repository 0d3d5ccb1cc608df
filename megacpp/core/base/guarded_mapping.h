// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, where bytes that cannot be read do not end the process. The system says so with SIGBUS, at
// the instruction that reads them: the file has become shorter, or its disk failed. A handler then puts zeros in the
// place of these bytes and of all behind them, and the mapping is damaged from there on. Whoever reads it asks
// is_damaged() before anything that was made of the bytes is used. The handler comes with the first mapping, takes no
// lock, and leaves all other addresses to the handler that was there before it.
#pragma once

#include <cstddef>
#include <span>

namespace megacpp::base {

struct MappingSlot;

class GuardedMapping {
 public:
  GuardedMapping() = default;
  /// `bytes` of the file from its beginning on, at least 1; protection and flags are those of mmap(). Where the system
  /// refuses, bytes() is empty and errno says why.
  GuardedMapping(int file, size_t bytes, int protection, int flags);
  ~GuardedMapping();
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  /// False: all bytes that were read before this call were those of the file.
  bool is_damaged() const;

 private:
  std::span<std::byte> bytes_;
  MappingSlot* slot_ = nullptr;  // there as long as anything is mapped
};

}  // namespace megacpp::base
