// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/spare_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <new>

namespace megacpp::base {
namespace {

constexpr size_t kSpareBytes = size_t{4} << 20;  // of addresses; no page of it is ever taken

std::atomic<void*> spare = nullptr;

// Called by `new`, on any thread, before it gives up.
void give_spare_memory() {
  if (void* const memory = spare.exchange(nullptr)) ::munmap(memory, kSpareBytes);
  throw std::bad_alloc();
}

}  // namespace

void keep_spare_memory() {
  std::set_new_handler(give_spare_memory);
  refill_spare_memory();
}

void refill_spare_memory() {
  if (std::get_new_handler() != give_spare_memory) return;
  void* const memory = ::mmap(nullptr, kSpareBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;  // the next refusal has no help
  if (void* const before = spare.exchange(memory)) ::munmap(before, kSpareBytes);
}

}  // namespace megacpp::base
