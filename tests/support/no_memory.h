// SPDX-License-Identifier: Apache-2.0
// A process that has no more memory, for what must then still be done: in a process of its own, before it ends.
#pragma once

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace megacpp::testing_support {

/// Threads that start later share the memory that the main thread has: with many cores each would have some of its own,
/// which leave_no_memory() does not take.
inline void share_memory_between_threads() { ::mallopt(M_ARENA_MAX, 1); }

/// From here on the system refuses all memory but what this process gives back to it, and the allocator has no more
/// than so many blocks of 64 bytes.
inline void leave_no_memory(size_t small_blocks = 0) {
  std::vector<void*> small(small_blocks);
  for (void*& block : small) block = std::malloc(64);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit as_it_is = {.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)), .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &as_it_is);
  for (size_t bytes = size_t{1} << 24; bytes >= 16; bytes /= 2)
    while (auto* const block = static_cast<volatile char*>(std::malloc(bytes))) *block = 0;
  for (void* const block : small) std::free(block);
}

}  // namespace megacpp::testing_support
