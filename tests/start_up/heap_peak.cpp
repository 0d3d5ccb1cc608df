// SPDX-License-Identifier: Apache-2.0
#include "tests/start_up/heap_peak.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> held{0}, peak{0}, largest{0}, held_at_start{0};

void raise_to(std::atomic<int64_t>& most, int64_t value) {
  for (int64_t seen = most.load(); seen < value && !most.compare_exchange_weak(seen, value);) {
  }
}

void* watched(void* memory) {
  if (memory == nullptr) return nullptr;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  raise_to(peak, held.fetch_add(bytes) + bytes);
  raise_to(largest, bytes);
  return memory;
}

void* allocated(std::size_t bytes) {
  if (void* memory = watched(std::malloc(bytes == 0 ? 1 : bytes))) return memory;
  throw std::bad_alloc();
}

void* allocated(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (void* memory = watched(std::aligned_alloc(step, (bytes + step - 1) / step * step))) return memory;
  throw std::bad_alloc();
}

void freed(void* memory) {
  if (memory == nullptr) return;
  held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocated(bytes); }
void* operator new[](std::size_t bytes) { return allocated(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocated(bytes, alignment); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocated(bytes, alignment); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return watched(std::malloc(bytes)); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return watched(std::malloc(bytes)); }
void operator delete(void* memory) noexcept { freed(memory); }
void operator delete[](void* memory) noexcept { freed(memory); }
void operator delete(void* memory, std::size_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::size_t) noexcept { freed(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { freed(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { freed(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { freed(memory); }

namespace megacpp::testing_support {

HeapWatch::HeapWatch() {
  held_at_start = held.load();
  peak = held.load();
  largest = 0;
}

int64_t HeapWatch::peak_bytes() const { return peak.load() - held_at_start.load(); }
int64_t HeapWatch::held_bytes() const { return held.load() - held_at_start.load(); }
int64_t HeapWatch::largest_bytes() const { return largest.load(); }

}  // namespace megacpp::testing_support
