// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace megacpp::base {
namespace {

constexpr size_t kPiece = size_t{256} << 20;  // between two questions, which read files of the system's

void write_to_each_page(std::span<std::byte> piece) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < piece.size(); at += page) *static_cast<volatile std::byte*>(&piece[at]) = std::byte{0};
}

// The system says that it has no page, where a write would end the process. False then.
bool populate(std::span<std::byte> piece) {
#ifdef MADV_POPULATE_WRITE
  int answer = 0;
  do answer = ::madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE);
  while (answer != 0 && (errno == EINTR || errno == EAGAIN));
  if (answer == 0 || errno != EINVAL) return answer == 0;
#endif
  write_to_each_page(piece);  // on systems that do not know the advice
  return true;
}

}  // namespace

ReservedMemory::ReservedMemory(size_t bytes) {
  if (bytes == 0) return;
  void* const mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  bytes_ = {static_cast<std::byte*>(mapping), bytes};
#ifdef MADV_HUGEPAGE
  ::madvise(mapping, bytes, MADV_HUGEPAGE);  // advice: without it pages are small
#endif
}

std::optional<MemoryShortage> ReservedMemory::obtain(const std::function<int64_t()>& free_bytes) const {
  for (std::span<std::byte> left = bytes_; !left.empty(); left = left.subspan(std::min(kPiece, left.size()))) {
    const MemoryShortage shortage{.wanted = static_cast<int64_t>(left.size()), .free = free_bytes()};
    if (shortage.free < shortage.wanted || !populate(left.first(std::min(kPiece, left.size())))) return shortage;
  }
  return std::nullopt;
}

ReservedMemory::~ReservedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace megacpp::base
