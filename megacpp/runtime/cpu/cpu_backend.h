// SPDX-License-Identifier: Apache-2.0
// The CPU backend: what it runs (as data for the compiler) and how it loads a compiled run.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "megacpp/collectives/transport.h"
#include "megacpp/compile/compile.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/runtime/fault_injection.h"
#include "megacpp/schedule/target.h"

namespace megacpp::runtime::cpu {

/// Threads available to this process.
int available_threads();

/// Memory a new program may use on this machine.
int64_t available_memory_bytes();

/// What one of `chips` gets of the machine's threads; at least one.
int threads_per_chip(int threads, int64_t chips);

/// `threads` of one chip; `transport` says what its collectives need.
schedule::Target cpu_target(int threads, const collectives::Transport& transport = collectives::inproc_transport());

struct LoadOptions {
  int threads = 1;                                             // of the machine, divided among the chips
  bool profile = false;                                        // keep seconds per op
  int64_t trace_steps = 0;                                     // keep when every node ran in so many first steps
  std::chrono::seconds wait_limit = std::chrono::minutes(10);  // for another chip, before E3102
  /// Makes the world of the run.
  collectives::Transport transport = collectives::inproc_transport();
  std::vector<int64_t> limits = {};  // bytes by chip, 0: none of its own; empty: none at all
  Faults faults = {};                // allocations that are to fail
};

/// `compiled` must outlive the executable, and was compiled for the same transport. Obtains the zeroed arenas of the
/// local chips and prepares every kernel; a load that fails aborts the world, so that no process waits.
/// memory::OutOfMemory before anything is touched when a chip's plan exceeds its limit or all together the machine's
/// memory (E2001), and when the machine refuses it all the same (E2005).
std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace megacpp::runtime::cpu
