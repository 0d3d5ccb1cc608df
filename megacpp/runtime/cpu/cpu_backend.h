// SPDX-License-Identifier: Apache-2.0
// The CPU backend: what it runs (as data for the compiler) and how it loads a compiled run.
#pragma once

#include <memory>
#include <vector>

#include "megacpp/memory/memory_plan.h"
#include "megacpp/runtime/executable.h"
#include "megacpp/schedule/target.h"

namespace megacpp::runtime::cpu {

/// Threads available to this process.
int available_threads();

/// Memory a new program may use on this machine.
int64_t available_memory_bytes();

schedule::Target cpu_target(int threads);

struct LoadOptions {
  int threads = 1;
  bool profile = false;  // keep seconds per op
};

/// Obtains the zeroed arena and prepares every kernel. E2001 when the plan exceeds the machine's memory, E3002 when the
/// machine refuses it all the same.
std::unique_ptr<Executable> load(const std::vector<LoadedProgram>& programs, const memory::MemoryPlan& plan,
                                 const LoadOptions& options);

}  // namespace megacpp::runtime::cpu
