// SPDX-License-Identifier: Apache-2.0
#include "bench/heap_count.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> most_bytes{0};

void* count_allocation(void* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  const int64_t live = live_bytes += static_cast<int64_t>(malloc_usable_size(pointer));
  int64_t most = most_bytes.load();
  while (live > most && !most_bytes.compare_exchange_weak(most, live)) {
  }
  return pointer;
}

void release(void* pointer) {
  if (pointer != nullptr) live_bytes -= static_cast<int64_t>(malloc_usable_size(pointer));
  std::free(pointer);
}

}  // namespace

// The other forms of new and delete call these.
void* operator new(size_t bytes) { return count_allocation(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t multiple = static_cast<size_t>(alignment);
  return count_allocation(std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple));
}
void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, size_t) noexcept { release(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { release(pointer); }
void operator delete(void* pointer, size_t, std::align_val_t) noexcept { release(pointer); }

namespace megacpp::bench {

HeapCount::HeapCount() : before_(live_bytes.load()) { most_bytes = before_; }

int64_t HeapCount::peak_bytes() const { return most_bytes.load() - before_; }

}  // namespace megacpp::bench
