// SPDX-License-Identifier: Apache-2.0
// The CPU backend: what it runs (as data for the compiler) and how it loads a compiled run.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/ir/mesh.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/schedule/target.h"

namespace megacpp::runtime::cpu {

/// Threads available to this process.
int available_threads();

/// Memory a new program may use on this machine.
int64_t available_memory_bytes();

/// What one chip gets of the machine's threads; at least one.
int threads_per_chip(int threads, const ir::Mesh& mesh);

/// `threads` of one chip.
schedule::Target cpu_target(int threads);

struct LoadOptions {
  int threads = 1;                                             // of the machine, divided among the chips
  bool profile = false;                                        // keep seconds per op
  int64_t trace_steps = 0;                                     // keep when every node ran in so many first steps
  std::chrono::seconds wait_limit = std::chrono::minutes(10);  // for another chip, before E3102
};

/// `compiled` must outlive the executable. Obtains the zeroed arenas and prepares every kernel. E2001 when the plan
/// exceeds the machine's memory, E3002 when the machine refuses it all the same.
std::unique_ptr<Executable> load(const compile::Compiled& compiled, const LoadOptions& options);

}  // namespace megacpp::runtime::cpu
