// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/reserved_memory.h"

#include <sys/mman.h>

#include <new>

namespace megacpp::base {

ReservedMemory::ReservedMemory(size_t bytes) {
  if (bytes == 0) return;
  void* const mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  bytes_ = {static_cast<std::byte*>(mapping), bytes};
#ifdef MADV_HUGEPAGE
  ::madvise(mapping, bytes, MADV_HUGEPAGE);  // advice: without it pages are small
#endif
}

ReservedMemory::~ReservedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace megacpp::base
