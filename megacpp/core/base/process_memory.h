// SPDX-License-Identifier: Apache-2.0
// What the system counts of this process, by what it is for, read from /proc/self. Bytes that are resident: what is
// mapped and was never touched is not counted.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>

namespace megacpp::base {

struct ProcessMemory {
  int64_t code = 0;      // of the program and its libraries, their data included, and of mapped files
  int64_t stacks = 0;    // of all threads
  int64_t heap = 0;      // what malloc holds in its arenas: lists, graphs, texts
  int64_t mapped = 0;    // mapped by itself: virtual chips' arenas, buffers of matrix products, large lists
  int64_t released = 0;  // at the peak and no longer now, as what compiling took
  int64_t peak = 0;      // the most that was resident at once

  bool operator==(const ProcessMemory&) const = default;
};

/// Nothing where the system does not tell.
std::optional<ProcessMemory> process_memory();

/// The same from the text of smaps; `peak` is VmHWM, `stack_bytes` the address space of a thread's stack with its
/// guard.
ProcessMemory read_process_memory(std::istream& smaps, int64_t peak, int64_t stack_bytes);

}  // namespace megacpp::base
